#include <Python.h>

#include "text.h"

#include "java_double.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { DIGITS = 48, PLACES = 6, MILLIS = 1000, SECONDS_A_DAY = 86400 };
static const double POWERS[PLACES + 1] = {1, 10, 100, 1000, 10000, 100000, 1000000};

static size_t digits_of(unsigned __int128 value, char text[DIGITS]) {
    size_t at = DIGITS;
    do {
        text[--at] = (char)('0' + (int)(value % 10));
        value /= 10;
    } while (value > 0);
    memmove(text, text + at, DIGITS - at);
    return DIGITS - at;
}

static void padded(Buffer *out, int64_t value, int width) {
    char text[DIGITS];
    size_t size = digits_of((unsigned __int128)value, text);
    for (int left = width - (int)size; left > 0; left--) {
        buffer_append(out, "0", 1);
    }
    buffer_append(out, text, size);
}

void integer_text(Buffer *out, int64_t value) {
    if (value < 0) {
        buffer_append(out, "-", 1);
    }
    char text[DIGITS];
    buffer_append(out, text, digits_of(value < 0 ? -(unsigned __int128)value : (unsigned __int128)value, text));
}

/* Digits without a point, of which `point` are before it. Java writes 0.001 to 9999999 without an exponent. */
static void java_notation(Buffer *out, const char *digits, int count, int point) {
    static const char zeros[] = "0000000";
    if (point > 7 || point < -2) {
        buffer_append(out, digits, 1);
        buffer_append(out, ".", 1);
        buffer_append(out, count > 1 ? digits + 1 : "0", count > 1 ? (size_t)count - 1 : 1);
        buffer_append(out, "E", 1);
        integer_text(out, point - 1);
    } else if (point <= 0) {
        buffer_append(out, "0.", 2);
        buffer_append(out, zeros, (size_t)-point);
        buffer_append(out, digits, (size_t)count);
    } else if (count <= point) {
        buffer_append(out, digits, (size_t)count);
        buffer_append(out, zeros, (size_t)(point - count));
        buffer_append(out, ".0", 2);
    } else {
        buffer_append(out, digits, (size_t)point);
        buffer_append(out, ".", 1);
        buffer_append(out, digits + point, (size_t)(count - point));
    }
}

/* Python's text of a number, for instance 1.5e-07. */
static void from_python(Buffer *out, const char *text) {
    char digits[DIGITS];
    int count = 0, point = -1, exponent = 0;
    for (; *text != '\0' && count < DIGITS; text++) {
        if (*text == '.') {
            point = count;
        } else if (*text == 'e') {
            exponent = (int)strtol(text + 1, NULL, 10);
            break;
        } else {
            digits[count++] = *text;
        }
    }
    point = (point < 0 ? count : point) + exponent;
    int first = 0;
    while (first < count - 1 && digits[first] == '0') {
        first++;
    }
    while (count - first > 1 && digits[count - 1] == '0') {
        count--;
    }
    java_notation(out, digits + first, count - first, point - first);
}

static bool shortest(Buffer *out, double value, bool is_float) {
    char *text = NULL;
    if (is_float) {
        for (int precision = value < FLT_MIN ? 0 : 5; precision < 9; precision++) {
            PyMem_Free(text);
            text = PyOS_double_to_string(value, 'e', precision, 0, NULL);
            if (text == NULL || (float)PyOS_string_to_double(text, NULL, NULL) == (float)value) {
                break;
            }
        }
    } else {
        text = PyOS_double_to_string(value, 'r', 0, 0, NULL);
    }
    if (text == NULL) {
        return false;
    }
    from_python(out, text);
    PyMem_Free(text);
    return true;
}

bool double_text(Buffer *out, double value, Digits wanted) {
    bool is_float = wanted == SHORTEST_FLOAT;
    if (!isfinite(value)) {
        const char *name = isnan(value) ? "\"NaN\"" : value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
        buffer_append(out, name, strlen(name));
        return true;
    }
    if (signbit(value)) {
        buffer_append(out, "-", 1);
        value = -value;
    }
    /* Few digits are the most frequent. With 15 (in a float 6) no other number has them, so they are the shortest. Java
       has the same. */
    const double most = is_float ? 1e6 : 1e15;
    if (value == 0 || (value >= 1e-3 && value < 1e7)) {
        for (int places = 0; places <= PLACES; places++) {
            double whole = nearbyint(value * POWERS[places]);
            if (whole >= most) {
                break;
            }
            double read = whole / POWERS[places];
            if (is_float ? (float)read == (float)value : read == value) {
                char digits[DIGITS];
                int count = (int)digits_of((unsigned __int128)whole, digits);
                if (whole == 0) {
                    buffer_append(out, "0.0", 3);
                } else {
                    java_notation(out, digits, count, count - places);
                }
                return true;
            }
        }
    }
    if (wanted == JAVA_DOUBLE) {
        JavaDigits java;
        java_digits(&java, value);
        java_notation(out, java.digits, java.count, java.point);
        return true;
    }
    return shortest(out, value, is_float);
}

void decimal_text(Buffer *out, unsigned __int128 value, bool negative, int64_t scale, bool plain) {
    char digits[DIGITS];
    int64_t count = (int64_t)digits_of(value, digits);
    if (negative) {
        buffer_append(out, "-", 1);
    }
    int64_t exponent = count - 1 - scale;
    if (!plain && (scale < 0 || exponent < -6)) {
        buffer_append(out, digits, 1);
        if (count > 1) {
            buffer_append(out, ".", 1);
            buffer_append(out, digits + 1, (size_t)count - 1);
        }
        if (exponent != 0) {
            buffer_append(out, exponent > 0 ? "E+" : "E", exponent > 0 ? 2 : 1);
            integer_text(out, exponent);
        }
        return;
    }
    if (scale <= 0) {
        buffer_append(out, digits, (size_t)count);
        for (int64_t left = value == 0 ? 0 : scale; left < 0; left++) {
            buffer_append(out, "0", 1);
        }
        return;
    }
    if (count <= scale) {
        buffer_append(out, "0.", 2);
        for (int64_t left = scale - count; left > 0; left--) {
            buffer_append(out, "0", 1);
        }
        buffer_append(out, digits, (size_t)count);
        return;
    }
    buffer_append(out, digits, (size_t)(count - scale));
    buffer_append(out, ".", 1);
    buffer_append(out, digits + count - scale, (size_t)scale);
}

static int64_t floor_div(int64_t value, int64_t by) { return value / by - (value % by < 0); }

/* The civil date of a day since 1970-01-01: in the years from March on, which end with the day that leap years add. */
void date_text(Buffer *out, int64_t days) {
    int64_t shifted = days + 719468;
    int64_t era = floor_div(shifted, 146097);
    int64_t day_of_era = shifted - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;
    int64_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    int64_t year = year_of_era + era * 400 + (month <= 2);
    if (year < 0 || year > 9999) {
        buffer_append(out, year < 0 ? "-" : "+", 1);
    }
    padded(out, year < 0 ? -year : year, 4);
    buffer_append(out, "-", 1);
    padded(out, month, 2);
    buffer_append(out, "-", 1);
    padded(out, day, 2);
}

void timestamp_text(Buffer *out, int64_t value, int64_t units_a_second) {
    int64_t seconds = floor_div(value, units_a_second);
    int64_t rest = value - seconds * units_a_second;
    int64_t days = floor_div(seconds, SECONDS_A_DAY);
    int64_t of_day = seconds - days * SECONDS_A_DAY;
    int64_t millis = units_a_second >= MILLIS ? rest / (units_a_second / MILLIS) : 0;
    date_text(out, days);
    const int64_t parts[] = {of_day / 3600, of_day / 60 % 60, of_day % 60, millis};
    static const char *const signs[] = {"T", ":", ":", "."};
    for (int index = 0; index < 4; index++) {
        buffer_append(out, signs[index], 1);
        padded(out, parts[index], index == 3 ? 3 : 2);
    }
}
