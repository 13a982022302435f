/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a line of metrics: with a fast scanner for flat JSON objects of numbers and words, and with the
 * strict JSON reader for everything else. Knows nothing of files. */
#include "engine/report/write/metrics_line.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/json/json.h"

static const char *const keys[CLT_METRIC_COUNT] = {
#define KEY(name, key) [CLT_METRIC_##name] = key,
    CLT_METRIC_MAP(KEY)
#undef KEY
};
static const unsigned char key_length[CLT_METRIC_COUNT] = {
#define KEY(name, key) [CLT_METRIC_##name] = sizeof key - 1,
    CLT_METRIC_MAP(KEY)
#undef KEY
};

/* The metric of a key, or CLT_METRIC_COUNT. `expected` is tried first, because the order of keys is always
 * the same. */
static int metric_of(const char *key, size_t length, int expected)
{
    for (int i = 0; i < CLT_METRIC_COUNT; i++) {
        int metric = expected + i < CLT_METRIC_COUNT ? expected + i : expected + i - CLT_METRIC_COUNT;
        if (key_length[metric] == length && memcmp(keys[metric], key, length) == 0)
            return metric;
    }
    return CLT_METRIC_COUNT;
}

static void reset(clt_metrics_line *out)
{
    out->kind = CLT_LINE_OTHER;
    out->step = -1;
    out->nonfinite = false;
    out->present = 0;
    out->n_losses = 0;
    for (int i = 0; i < CLT_METRIC_COUNT; i++)
        out->value[i] = NAN;
}

static bool is_key(const char *key, size_t length, const char *name)
{
    return length == strlen(name) && memcmp(key, name, length) == 0;
}

static bool holds_losses(const char *key, size_t length)
{
    return is_key(key, length, "losses") || is_key(key, length, "eval_losses");
}

static void add_loss(clt_metrics_line *out, const char *name, size_t length, double value)
{
    if (out->n_losses == CLT_LINE_LOSSES)
        return;
    clt_line_loss *loss = &out->losses[out->n_losses++];
    length = length < CLT_LINE_LOSS_NAME ? length : CLT_LINE_LOSS_NAME - 1;
    memcpy(loss->name, name, length);
    loss->name[length] = '\0';
    loss->value = value;
}

/* Decides the kind of the line from its members; false: it is not a line of metrics. */
static bool complete(clt_metrics_line *out, bool event)
{
    out->kind = event                                     ? CLT_LINE_EVENT
                : clt_line_has(out, CLT_METRIC_LOSS)      ? CLT_LINE_STEP
                : clt_line_has(out, CLT_METRIC_EVAL_LOSS) ? CLT_LINE_EVAL
                                                          : CLT_LINE_OTHER;
    return out->step >= 0 && out->step <= CLT_METRICS_MAX_STEP;
}

/* --- the scanner --- */

typedef struct scanner {
    const char *at, *end;
    int expected; /* metric that the next key most likely has */
} scanner;

static void skip_space(scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

static bool take(scanner *s, char c)
{
    skip_space(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool digit(const scanner *s)
{
    return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

/* 10^n is exact in a double up to n = 22, and up to n = 27 in a long double with 64 bits of mantissa. */
static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

#if LDBL_MANT_DIG == 64 && (defined __x86_64__ || defined __i386__)
/* mantissa * 10^exponent, rounded as strtod does; false: this method cannot tell. One operation on exact
 * values gives the result rounded to 64 bits of mantissa. Rounding that to the 53 bits of a double is correct
 * unless it lies exactly between two doubles: then the first rounding may have hidden on which side the exact
 * result lies. */
static bool scale(uint64_t mantissa, int exponent, double *out)
{
    long double wide = exponent < 0 ? (long double)mantissa / (long double)tens[-exponent]
                                    : (long double)mantissa * (long double)tens[exponent];
    uint64_t bits;
    memcpy(&bits, &wide, sizeof bits); /* the mantissa is stored first */
    if ((bits & 0x7ff) == 0x400)
        return false;
    *out = (double)wide;
    return true;
}
#else
static bool scale(uint64_t mantissa, int exponent, double *out)
{
    if (mantissa >> 53)
        return false;
    *out = exponent < 0 ? (double)mantissa / tens[-exponent] : (double)mantissa * tens[exponent];
    return true;
}
#endif

static bool slow_number(const char *text, size_t length, double *out)
{
    char copy[128];
    char *end;
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    *out = clt_strtod(copy, &end);
    return end == copy + length && isfinite(*out);
}

/* Reads digits into *mantissa, which holds up to 19; returns how many there were. */
static int digits(scanner *s, uint64_t *mantissa, int *significant, int *dropped)
{
    const char *from = s->at;
    for (; digit(s); s->at++) {
        if (*significant >= 19) {
            (*dropped)++;
            continue;
        }
        *mantissa = *mantissa * 10 + (uint64_t)(*s->at - '0');
        *significant += *mantissa != 0;
    }
    return (int)(s->at - from);
}

/* Skips a number that is not needed. */
static bool skip_number(scanner *s)
{
    const char *from = s->at;
    while (s->at < s->end && (digit(s) || *s->at == '-' || *s->at == '.'))
        s->at++;
    /* number() reads exponents and unusual forms */
    bool plain = from < s->at && (s->at == s->end || *s->at == ',' || *s->at == '}');
    const char *dot = plain ? memchr(from, '.', (size_t)(s->at - from)) : NULL;
    size_t first = from[0] == '-';
    plain = plain && from + first < s->at && from[first] >= '0' && from[first] <= '9' && s->at[-1] >= '0' &&
            s->at[-1] <= '9';
    plain = plain && (from[first] != '0' || from + first + 1 == s->at || dot == from + first + 1);
    plain = plain && !memchr(from + first, '-', (size_t)(s->at - from) - first);
    plain = plain && (!dot || !memchr(dot + 1, '.', (size_t)(s->at - dot - 1)));
    if (!plain)
        s->at = from;
    return plain;
}

/* Reads a number as JSON defines it. *is_integer: it has no fraction or exponent, and *out is exact. */
static bool number(scanner *s, double *out, bool *is_integer)
{
    const char *from = s->at;
    uint64_t mantissa = 0;
    int significant = 0, dropped = 0, power = 0, fraction = 0;
    bool negative = s->at < s->end && *s->at == '-';
    s->at += negative;
    bool zero = digit(s) && *s->at == '0';
    int whole = digits(s, &mantissa, &significant, &dropped);
    if (whole == 0 || (zero && whole > 1))
        return false;
    *is_integer = true;
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        *is_integer = false;
        fraction = digits(s, &mantissa, &significant, &dropped);
        if (fraction == 0)
            return false;
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        int sign = 1, count = 0;
        *is_integer = false;
        s->at++;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-'))
            sign = *s->at++ == '-' ? -1 : 1;
        for (; digit(s) && count < 5; s->at++, count++)
            power = power * 10 + (*s->at - '0');
        if (count == 0 || count == 5)
            return false;
        power *= sign;
    }
    power -= fraction;
    bool exact = dropped == 0 && power >= -22 && power <= 22;
    if (mantissa == 0 && dropped == 0)
        *out = 0;
    else if (!exact || !scale(mantissa, power, out))
        return slow_number(from, (size_t)(s->at - from), out);
    if (negative)
        *out = -*out;
    return true;
}

static bool word(scanner *s, const char *text)
{
    size_t length = strlen(text);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, text, length) != 0)
        return false;
    s->at += length;
    return true;
}

/* Reads a key without its quotes; *length is 0 if the key has escapes or is another that runs never write. */
static bool plain_key(scanner *s, const char **key, size_t *length)
{
    if (!take(s, '"'))
        return false;
    *key = s->at;
    while (s->at < s->end &&
           ((*s->at >= 'a' && *s->at <= 'z') || *s->at == '_' || (*s->at >= '0' && *s->at <= '9')))
        s->at++;
    *length = (size_t)(s->at - *key);
    if (s->at == s->end || *s->at != '"' || *length == 0)
        return false;
    s->at++;
    return take(s, ':');
}

/* Reads an object of losses after its brace; false: the line must be read by the strict reader. */
static bool losses(scanner *s, clt_metrics_line *out)
{
    const char *key;
    size_t length;
    double value;
    bool is_integer;
    if (out->n_losses > 0) /* a second object */
        return false;
    do {
        value = NAN;
        if (!plain_key(s, &key, &length))
            return false;
        skip_space(s);
        if (!word(s, "null") && !number(s, &value, &is_integer))
            return false;
        for (int i = 0; i < out->n_losses; i++)
            if (is_key(key, length, out->losses[i].name))
                return false; /* a name occurs twice */
        add_loss(out, key, length, value);
    } while (take(s, ','));
    return take(s, '}');
}

/* Reads one member of the object; false: the line must be read by the strict reader. */
static bool member(scanner *s, clt_metrics_line *out)
{
    const char *key;
    size_t length;
    double value = NAN;
    bool is_integer = false, is_true = false, is_number = false;
    if (!plain_key(s, &key, &length))
        return false;
    if (holds_losses(key, length) && take(s, '{'))
        return losses(s, out);
    skip_space(s);
    bool is_step = is_key(key, length, "step");
    int metric = is_step ? CLT_METRIC_COUNT : metric_of(key, length, s->expected);
    if (digit(s) || (s->at < s->end && *s->at == '-')) {
        bool wanted = is_step || metric < CLT_METRIC_COUNT;
        if ((wanted || !skip_number(s)) && !number(s, &value, &is_integer))
            return false;
        is_number = true;
    } else if (word(s, "true")) {
        is_true = true;
    } else if (!word(s, "null") && !word(s, "false")) {
        return false;
    }
    if (is_step) {
        if (out->step >= 0 || !is_integer || !(value >= 0 && value <= (double)CLT_METRICS_MAX_STEP))
            return false;
        out->step = (int64_t)value;
        return true;
    }
    if (metric < CLT_METRIC_COUNT) {
        if (clt_line_has(out, (clt_metric)metric))
            return false;
        s->expected = metric + 1 < CLT_METRIC_COUNT ? metric + 1 : 0;
        out->present |= UINT64_C(1) << metric;
        out->value[metric] = is_number ? value : NAN;
    } else if (is_key(key, length, "nonfinite")) {
        out->nonfinite = is_true;
    } else if (is_key(key, length, "event")) {
        return false;
    }
    return true;
}

static bool scan(const char *text, size_t length, clt_metrics_line *out)
{
    scanner s = {text, text + length, 0};
    reset(out);
    if (!take(&s, '{'))
        return false;
    do {
        if (!member(&s, out))
            return false;
    } while (take(&s, ','));
    if (!take(&s, '}'))
        return false;
    skip_space(&s);
    return s.at == s.end && complete(out, false);
}

/* --- the strict reader --- */

static bool read_members(const clt_json *root, clt_metrics_line *out)
{
    reset(out);
    if (!clt_json_int(clt_json_get(root, "step"), &out->step))
        return false;
    for (const clt_json *v = clt_json_first(root); v; v = clt_json_next(v)) {
        const char *key = clt_json_key(v);
        int metric = metric_of(key, strlen(key), 0);
        bool several = holds_losses(key, strlen(key)) && clt_json_typeof(v) == CLT_JSON_OBJECT;
        for (const clt_json *l = several ? clt_json_first(v) : NULL; l; l = clt_json_next(l))
            add_loss(out, clt_json_key(l), strlen(clt_json_key(l)), clt_json_number_or(l, NAN));
        if (metric == CLT_METRIC_COUNT)
            continue;
        out->present |= UINT64_C(1) << metric;
        if (clt_json_typeof(v) == CLT_JSON_NUMBER)
            out->value[metric] = clt_json_number(v);
    }
    out->nonfinite = clt_json_bool(clt_json_get(root, "nonfinite"));
    return complete(out, clt_json_typeof(clt_json_get(root, "event")) == CLT_JSON_STRING);
}

clt_status clt_metrics_line_read_strict(const char *text, size_t length, clt_metrics_line *out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    reset(out);
    clt_status status = clt_json_parse(text, length, "metrics.jsonl", CLT_EDATA, &doc);
    if (status == CLT_EDATA)
        clt_error_clear();
    CLT_TRY(status);
    return read_members(clt_json_root(doc), out) ? CLT_OK : CLT_EDATA;
}

clt_status clt_metrics_line_read(const char *text, size_t length, clt_metrics_line *out)
{
    return scan(text, length, out) ? CLT_OK : clt_metrics_line_read_strict(text, length, out);
}
