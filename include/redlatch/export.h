// REDLATCH_EXPORT marks what a shared redlatch makes visible; everything else is hidden.
// The other headers include this one before they need C++20, so it checks the language.
#ifndef REDLATCH_EXPORT_H_
#define REDLATCH_EXPORT_H_

#if __cplusplus < 202002L
#error "redlatch needs C++20: compile with -std=c++20"
#endif

#if defined(__GNUC__) || defined(__clang__)
#define REDLATCH_EXPORT __attribute__((visibility("default")))
#else
#define REDLATCH_EXPORT
#endif

#endif  // REDLATCH_EXPORT_H_
