/* Double.toString as Java had it until release 18, where some numbers have more digits than are needed.

   It is the digit generation of Steele and White. Three numbers are kept: what is left of the value, the scale, and
   half the distance to the next double. The arithmetic has the width that Java's has, because it may overflow there. */
#include "java_double.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SHIFT = 52, BIAS = 1023, WORDS = 48, MAX_POWER = 26, LARGEST_SMALL = 62, SMALLEST_SMALL = -21 };

typedef struct {
    uint32_t words[WORDS]; /* the lowest first */
    int count;
} Big;

static void big_multiply(Big *big, uint32_t factor) {
    uint64_t carry = 0;
    for (int at = 0; at < big->count; at++) {
        carry += (uint64_t)big->words[at] * factor;
        big->words[at] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry > 0 && big->count < WORDS) {
        big->words[big->count++] = (uint32_t)carry;
    }
}

/* value * 5^fives * 2^twos */
static Big big_of(uint64_t value, int fives, int twos) {
    Big big = {{(uint32_t)value, (uint32_t)(value >> 32)}, 2};
    while (big.count > 0 && big.words[big.count - 1] == 0) {
        big.count--;
    }
    for (; fives > 0; fives--) {
        big_multiply(&big, 5);
    }
    for (; twos >= 31; twos -= 31) {
        big_multiply(&big, UINT32_C(1) << 31);
    }
    big_multiply(&big, UINT32_C(1) << twos);
    return big;
}

static int big_compare(const Big *left, const Big *right) {
    if (left->count != right->count) {
        return left->count < right->count ? -1 : 1;
    }
    for (int at = left->count - 1; at >= 0; at--) {
        if (left->words[at] != right->words[at]) {
            return left->words[at] < right->words[at] ? -1 : 1;
        }
    }
    return 0;
}

static Big big_sum(const Big *left, const Big *right) {
    Big sum = {{0}, 0};
    uint64_t carry = 0;
    int longest = left->count > right->count ? left->count : right->count;
    for (int at = 0; at < longest || carry > 0; at++) {
        carry += (at < left->count ? left->words[at] : 0) + (uint64_t)(at < right->count ? right->words[at] : 0);
        sum.words[sum.count++] = (uint32_t)carry;
        carry >>= 32;
    }
    return sum;
}

/* The digit left / by, and what is left after it, ten times. */
static int big_digit(Big *left, const Big *by) {
    int digit = 0;
    for (; big_compare(left, by) >= 0; digit++) {
        int64_t borrow = 0;
        for (int at = 0; at < left->count; at++) {
            borrow += (int64_t)left->words[at] - (at < by->count ? by->words[at] : 0);
            left->words[at] = (uint32_t)borrow;
            borrow >>= 32;
        }
        while (left->count > 0 && left->words[left->count - 1] == 0) {
            left->count--;
        }
    }
    big_multiply(left, 10);
    return digit;
}

static int64_t power_of_five(int exponent) {
    int64_t power = 1;
    for (; exponent > 0; exponent--) {
        power *= 5;
    }
    return power;
}

static int bits_of_five(int exponent) {
    return exponent == 0 ? 0 : exponent > MAX_POWER ? exponent * 3 : 64 - __builtin_clzll((uint64_t)power_of_five(exponent));
}

static void append(JavaDigits *out, int digit) {
    if (out->count < JAVA_DIGITS) {
        out->digits[out->count++] = (char)('0' + digit);
    }
}

static void round_up(JavaDigits *out) {
    int at = out->count - 1;
    while (at > 0 && out->digits[at] == '9') {
        out->digits[at--] = '0';
    }
    if (out->digits[at] == '9') {
        out->digits[0] = '1';
        out->point++;
    } else {
        out->digits[at]++;
    }
}

/* A whole number, whose lowest digits may be insignificant. */
static void whole_digits(JavaDigits *out, int64_t value, int insignificant) {
    int64_t power = 1;
    for (int each = 0; each < insignificant; each++) {
        power *= 10;
    }
    int64_t rest = value % power;
    value = value / power + (insignificant > 0 && rest >= power / 2);
    int dropped = insignificant;
    for (; value % 10 == 0; value /= 10) {
        dropped++;
    }
    char reversed[JAVA_DIGITS];
    int count = 0;
    for (; value > 0; value /= 10) {
        reversed[count++] = (char)('0' + value % 10);
    }
    for (int at = count; at > 0; at--) {
        out->digits[out->count++] = reversed[at - 1];
    }
    out->point = dropped + count;
}

/* Java's int or long: what does not fit is cut off. */
static int64_t cut(uint64_t value, bool is_int) { return is_int ? (int32_t)(uint32_t)value : (int64_t)value; }

typedef struct {
    uint64_t fraction;
    int b5, b2, s5, s2, m5, m2;
    int exponent;
} Scaled;

typedef struct {
    bool low, high;
    int64_t difference; /* of the rest to a half */
} End;

/* Whether the first digit is one. A number with an exponent has a digit behind the point. */
static void first_digit(JavaDigits *out, Scaled *scaled, End *end, int digit) {
    if (digit == 0 && !end->high) {
        scaled->exponent--;
    } else {
        append(out, digit);
    }
    if (scaled->exponent < -3 || scaled->exponent >= 8) {
        end->low = end->high = false;
    }
}

static End short_digits(JavaDigits *out, Scaled *scaled, bool is_int) {
    int64_t b = cut((scaled->fraction * (uint64_t)power_of_five(scaled->b5)) << scaled->b2, is_int);
    int64_t s = cut((uint64_t)power_of_five(scaled->s5) << scaled->s2, is_int);
    int64_t m = cut((uint64_t)power_of_five(scaled->m5) << scaled->m2, is_int);
    int64_t tens = cut((uint64_t)s * 10, is_int);
    int digit = (int)(b / s);
    b = cut((uint64_t)(b % s) * 10, is_int);
    m = cut((uint64_t)m * 10, is_int);
    End end = {b < m, cut((uint64_t)b + (uint64_t)m, is_int) > tens, 0};
    first_digit(out, scaled, &end, digit);
    while (!end.low && !end.high) {
        digit = (int)(b / s);
        b = cut((uint64_t)(b % s) * 10, is_int);
        m = cut((uint64_t)m * 10, is_int);
        end.low = m <= 0 || b < m;
        end.high = m <= 0 || cut((uint64_t)b + (uint64_t)m, is_int) > tens;
        append(out, digit);
    }
    end.difference = cut(((uint64_t)b << 1) - (uint64_t)tens, is_int);
    return end;
}

static End long_digits(JavaDigits *out, Scaled *scaled) {
    Big s = big_of(1, scaled->s5, scaled->s2), tens = big_of(1, scaled->s5 + 1, scaled->s2 + 1);
    Big b = big_of(scaled->fraction, scaled->b5, scaled->b2);
    Big m = big_of(1, scaled->m5 + 1, scaled->m2 + 1);
    int digit = big_digit(&b, &s);
    Big sum = big_sum(&b, &m);
    End end = {big_compare(&b, &m) < 0, big_compare(&tens, &sum) <= 0, 0};
    first_digit(out, scaled, &end, digit);
    while (!end.low && !end.high) {
        digit = big_digit(&b, &s);
        big_multiply(&m, 10);
        sum = big_sum(&b, &m);
        end.low = big_compare(&b, &m) < 0;
        end.high = big_compare(&tens, &sum) <= 0;
        append(out, digit);
    }
    if (end.low && end.high) {
        big_multiply(&b, 2);
        end.difference = big_compare(&b, &tens);
    }
    return end;
}

static int estimated_exponent(uint64_t fraction, int exponent) {
    uint64_t bits = (uint64_t)BIAS << SHIFT | (fraction & ((UINT64_C(1) << SHIFT) - 1));
    double from_one;
    memcpy(&from_one, &bits, sizeof from_one);
    return (int)floor((from_one - 1.5) * 0.289529654 + 0.176091259 + (double)exponent * 0.301029995663981);
}

void java_digits(JavaDigits *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t fraction = bits & ((UINT64_C(1) << SHIFT) - 1);
    int exponent = (int)(bits >> SHIFT & 0x7FF), significant = SHIFT + 1;
    *out = (JavaDigits){{0}, 0, 0};
    if (exponent == 0) {
        int zeros = __builtin_clzll(fraction);
        fraction <<= zeros - (63 - SHIFT);
        exponent = 1 - (zeros - (63 - SHIFT));
        significant = 64 - zeros;
    } else {
        fraction |= UINT64_C(1) << SHIFT;
    }
    exponent -= BIAS;
    int trailing = __builtin_ctzll(fraction), count = SHIFT + 1 - trailing;
    int tiny = count - exponent - 1 > 0 ? count - exponent - 1 : 0;
    if (exponent <= LARGEST_SMALL && exponent >= SMALLEST_SMALL && tiny == 0) {
        static const int insignificant[] = {0, 0, 0, 0, 1, 1, 1, 2, 2, 2};
        int power = exponent > significant ? exponent - significant - 1 : 0;
        fraction = exponent >= SHIFT ? fraction << (exponent - SHIFT) : fraction >> (SHIFT - exponent);
        whole_digits(out, (int64_t)fraction, insignificant[power < 9 ? power : 9]);
        return;
    }
    Scaled scaled = {.exponent = estimated_exponent(fraction, exponent), .fraction = fraction >> trailing};
    scaled.b5 = scaled.m5 = scaled.exponent < 0 ? -scaled.exponent : 0;
    scaled.s5 = scaled.exponent > 0 ? scaled.exponent : 0;
    scaled.b2 = scaled.b5 + tiny + exponent;
    scaled.s2 = scaled.s5 + tiny;
    scaled.m2 = scaled.b2 - significant;
    scaled.b2 -= count - 1;
    int common = scaled.b2 < scaled.s2 ? scaled.b2 : scaled.s2;
    scaled.b2 -= common;
    scaled.s2 -= common;
    scaled.m2 -= common;
    if (count == 1) { /* the next number below a power of two is half as far away */
        scaled.m2 -= 1;
    }
    if (scaled.m2 < 0) {
        scaled.b2 -= scaled.m2;
        scaled.s2 -= scaled.m2;
        scaled.m2 = 0;
    }
    int bits_of_b = count + scaled.b2 + bits_of_five(scaled.b5);
    int bits_of_tens = scaled.s2 + 1 + bits_of_five(scaled.s5 + 1);
    bool is_short = bits_of_b < 64 && bits_of_tens < 64;
    End end = is_short ? short_digits(out, &scaled, bits_of_b < 32 && bits_of_tens < 32) : long_digits(out, &scaled);
    out->point = scaled.exponent + 1;
    bool is_odd = (out->digits[out->count - 1] & 1) != 0;
    if (end.high && (!end.low || end.difference > 0 || (end.difference == 0 && is_odd))) {
        round_up(out);
    }
}
