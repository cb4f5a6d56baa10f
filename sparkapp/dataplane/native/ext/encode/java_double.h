#ifndef JAVA_DOUBLE_H
#define JAVA_DOUBLE_H

enum { JAVA_DIGITS = 24 };

/* The digits of Double.toString of Java 17, of a number that is finite and above zero. */
typedef struct {
    char digits[JAVA_DIGITS];
    int count;
    int point; /* digits before the point, or minus the zeros behind it */
} JavaDigits;

void java_digits(JavaDigits *out, double value);

#endif
