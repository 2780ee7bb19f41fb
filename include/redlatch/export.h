// REDLATCH_EXPORT marks what a shared redlatch makes visible; everything else is hidden.
#ifndef REDLATCH_EXPORT_H_
#define REDLATCH_EXPORT_H_

#if defined(__GNUC__) || defined(__clang__)
#define REDLATCH_EXPORT __attribute__((visibility("default")))
#else
#define REDLATCH_EXPORT
#endif

#endif  // REDLATCH_EXPORT_H_
