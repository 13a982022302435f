/* SPDX-License-Identifier: Apache-2.0
 *
 * Signs requests by AWS's Signature Version 4. The text that is signed is the canonical form of the request.
 * S3 wants the path encoded once in it; other services of AWS want it encoded twice. */
#include "engine/storage/sigv4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/files/sha256.h"
#include "engine/storage/secret.h"

#define ALGORITHM "AWS4-HMAC-SHA256"

static bool is_plain(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void clt_uri_encode(clt_str *out, const char *text, bool slashes)
{
    for (const char *c = text; *c; c++) {
        if (is_plain((unsigned char)*c) || (slashes && *c == '/'))
            clt_str_append_n(out, c, 1);
        else
            clt_str_printf(out, "%%%02X", (unsigned)(unsigned char)*c);
    }
}

/* Names and values that will be sorted. */
typedef struct pairs {
    clt_str name[CLT_SIGV4_PAIRS], value[CLT_SIGV4_PAIRS];
    int order[CLT_SIGV4_PAIRS], n;
} pairs;

static void free_pairs(pairs *p)
{
    for (int i = 0; i < p->n; i++) {
        clt_str_free(&p->name[i]);
        clt_secret_free(&p->value[i]); /* a value may be a token */
    }
}
CLT_SCOPED_VALUE(pairs, free_pairs)

static int compare_pairs(const pairs *p, int a, int b)
{
    int order = strcmp(p->name[a].text, p->name[b].text);
    return order ? order : strcmp(p->value[a].text, p->value[b].text);
}

/* Insertion sort: there are few pairs, mostly in order. */
static clt_status sort_pairs(pairs *p)
{
    for (int i = 0; i < p->n; i++) {
        CLT_TRY(clt_str_check(&p->name[i]));
        CLT_TRY(clt_str_check(&p->value[i]));
        int at = i;
        for (; at > 0 && compare_pairs(p, p->order[at - 1], i) > 0; at--)
            p->order[at] = p->order[at - 1];
        p->order[at] = i;
    }
    return CLT_OK;
}

static clt_status check_count(int n)
{
    if (n > CLT_SIGV4_PAIRS)
        CLT_FAIL(CLT_EUSAGE, "a request to object storage has %d parameters or headers; the most are %d", n,
                 CLT_SIGV4_PAIRS);
    return CLT_OK;
}

clt_status clt_sigv4_query(const clt_pair *query, int n, clt_str *out)
{
    CLT_SCOPED(pairs) p = {.n = 0};
    CLT_TRY(check_count(n));
    for (; p.n < n; p.n++) {
        clt_str_append(&p.name[p.n], "");
        clt_uri_encode(&p.name[p.n], query[p.n].name, false);
        clt_str_append(&p.value[p.n], "");
        clt_uri_encode(&p.value[p.n], query[p.n].value ? query[p.n].value : "", false);
    }
    CLT_TRY(sort_pairs(&p));
    for (int i = 0; i < n; i++)
        clt_str_printf(out, "%s%s=%s", i ? "&" : "", p.name[p.order[i]].text, p.value[p.order[i]].text);
    return CLT_OK;
}

const char *clt_sigv4_time(int64_t time, char text[CLT_SIGV4_TIME])
{
    time_t seconds = (time_t)time;
    struct tm parts;
    gmtime_r(&seconds, &parts);
    if (!strftime(text, CLT_SIGV4_TIME, "%Y%m%dT%H%M%SZ", &parts))
        text[0] = '\0';
    return text;
}

static void append_lower(clt_str *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        char lower = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        clt_str_append_n(out, &lower, 1);
    }
}

/* Appends a value without blanks around it; each run of blanks inside becomes one. */
static void append_trimmed(clt_str *out, const char *text)
{
    static const char blanks[] = " \t";
    const char *c = text + strspn(text, blanks);
    while (*c) {
        size_t word = strcspn(c, blanks), gap = strspn(c + word, blanks);
        clt_str_append_n(out, c, word);
        c += word + gap;
        if (gap && *c)
            clt_str_append(out, " ");
    }
}

/* Writes the headers as they are signed, one per line, and the list of their names. */
static clt_status list_headers(const clt_sigv4 *r, clt_str *lines, clt_str *names)
{
    CLT_SCOPED(pairs) p = {.n = 0};
    CLT_TRY(check_count(r->n_headers));
    for (; p.n < r->n_headers; p.n++) {
        clt_str_append(&p.name[p.n], "");
        append_lower(&p.name[p.n], r->headers[p.n].name);
        clt_str_append(&p.value[p.n], "");
        append_trimmed(&p.value[p.n], r->headers[p.n].value);
    }
    CLT_TRY(sort_pairs(&p));
    for (int i = 0; i < p.n; i++) {
        int k = p.order[i];
        clt_str_printf(lines, "%s:%s\n", p.name[k].text, p.value[k].text);
        clt_str_printf(names, "%s%s", i ? ";" : "", p.name[k].text);
    }
    CLT_TRY(clt_str_check(lines));
    return clt_str_check(names);
}

static clt_status canonical_sum(const clt_sigv4 *r, clt_str *names, char sum[CLT_SHA256_TEXT])
{
    CLT_SCOPED(clt_secret) text = {0}, lines = {0};
    CLT_SCOPED(clt_str) query = {0};
    size_t room = 0;
    for (int i = 0; i < r->n_headers; i++)
        room += strlen(r->headers[i].name) + strlen(r->headers[i].value) + 2;
    clt_secret_room(&lines, room);
    CLT_TRY(list_headers(r, &lines, names));
    CLT_TRY(clt_sigv4_query(r->query, r->n_query, &query));
    clt_secret_room(&text, strlen(r->method) + strlen(r->path) + query.length + lines.length + names->length +
                               strlen(r->payload) + 5);
    clt_str_printf(&text, "%s\n%s\n%s\n%s\n%s\n%s", r->method, r->path, query.text ? query.text : "",
                   lines.text, names->text, r->payload);
    CLT_TRY(clt_str_check(&text));
    clt_sha256_text(text.text, text.length, sum);
    return CLT_OK;
}

/* Derives the signing key for a day, region and service. */
static clt_status day_key(const clt_sigv4 *r, const char *date, uint8_t key[CLT_SHA256_SIZE])
{
    CLT_SCOPED(clt_secret) first = {0};
    clt_secret_room(&first, strlen("AWS4") + strlen(r->secret_key));
    clt_str_printf(&first, "AWS4%s", r->secret_key);
    CLT_TRY(clt_str_check(&first));
    clt_hmac_sha256(first.text, first.length, date, 8, key);
    clt_hmac_sha256(key, CLT_SHA256_SIZE, r->region, strlen(r->region), key);
    clt_hmac_sha256(key, CLT_SHA256_SIZE, r->service, strlen(r->service), key);
    clt_hmac_sha256(key, CLT_SHA256_SIZE, "aws4_request", 12, key);
    return CLT_OK;
}

clt_status clt_sigv4_sign(const clt_sigv4 *r, clt_str *out)
{
    CLT_SCOPED(clt_str) names = {0}, scope = {0}, text = {0};
    char sum[CLT_SHA256_TEXT], time[CLT_SIGV4_TIME], signature[CLT_SHA256_TEXT];
    uint8_t key[CLT_SHA256_SIZE];
    CLT_TRY(canonical_sum(r, &names, sum));
    clt_sigv4_time(r->time, time);
    clt_str_printf(&scope, "%.8s/%s/%s/aws4_request", time, r->region, r->service);
    CLT_TRY(clt_str_check(&scope));
    clt_str_printf(&text, ALGORITHM "\n%s\n%s\n%s", time, scope.text, sum);
    CLT_TRY(clt_str_check(&text));
    CLT_TRY(day_key(r, time, key));
    clt_hmac_sha256(key, sizeof key, text.text, text.length, key); /* overwrites the day's key */
    clt_str_printf(out, ALGORITHM " Credential=%s/%s, SignedHeaders=%s, Signature=%s", r->access_key,
                   scope.text, names.text, clt_sha256_hex(key, signature));
    explicit_bzero(key, sizeof key);
    explicit_bzero(signature, sizeof signature);
    return clt_str_check(out);
}
