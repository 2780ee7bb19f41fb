// [answer]
int answer() { return 42; }
// [/answer]
