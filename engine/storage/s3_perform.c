/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes one call to object storage: chooses its server, signs it, sends it and retries it. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/files/sha256.h"
#include "engine/storage/dates.h"
#include "engine/storage/s3_internal.h"
#include "engine/storage/secret.h"
#include "engine/storage/xml.h"

#define CONNECT_SECONDS 10.0
#define STALL_SECONDS 30.0
#define MOVES 3             /* most redirections that a call follows */
#define CLOCK_SECONDS 600.0 /* servers refuse requests whose time is wrong by 15 minutes */

void clt_s3_reply_free(clt_s3_reply *reply)
{
    free(reply->body);
    *reply = (clt_s3_reply){.code = 0};
}

void clt_s3_add_query(clt_s3_call *call, const char *name, const char *value)
{
    call->query[call->n_query++] = (clt_pair){name, value};
}

void clt_s3_add_header(clt_s3_call *call, const char *name, const char *value)
{
    call->headers[call->n_headers++] = (clt_pair){name, value};
}

/* --- one attempt --- */

/* The parts of one attempt of a call. */
typedef struct attempt {
    bool tls;
    char host[400], region[64], moved[400]; /* moved: the host that a redirection has named; "": none */
    clt_str path, url;
    clt_secret authorization, lines[CLT_SIGV4_PAIRS]; /* lines: the headers that are sent */
    int n_lines;
    int64_t time;
    double clock_offset; /* the client's offset when `time` was taken */
    clt_keys keys;
} attempt;

static void free_attempt(attempt *a)
{
    explicit_bzero(&a->keys, sizeof a->keys);
    clt_str_free(&a->path);
    clt_str_free(&a->url);
    clt_secret_free(&a->authorization);
    for (int i = 0; i < a->n_lines; i++)
        clt_secret_free(&a->lines[i]);
    *a = (attempt){.tls = false};
}
CLT_SCOPED_VALUE(attempt, free_attempt)

static clt_status find_place(clt_s3 *s3, const clt_s3_call *call, const char *moved, attempt *a)
{
    CLT_LOCKED(&s3->lock);
    bool by_path = clt_endpoint_by_path(&s3->endpoint, s3->bucket);
    a->tls = s3->endpoint.tls;
    snprintf(a->host, sizeof a->host, "%s%s%s", by_path ? "" : s3->bucket, by_path ? "" : ".",
             s3->endpoint.host);
    if (moved[0])
        snprintf(a->host, sizeof a->host, "%s", moved);
    snprintf(a->region, sizeof a->region, "%s", s3->region);
    a->clock_offset = s3->clock_offset;
    a->time = (int64_t)floor(clt_wall_time() + a->clock_offset);
    clt_str_append(&a->path, "/");
    if (by_path) {
        clt_uri_encode(&a->path, s3->bucket, false);
        if (call->key[0])
            clt_str_append(&a->path, "/");
    }
    clt_uri_encode(&a->path, call->key, true);
    return clt_str_check(&a->path);
}

static void add_line(attempt *a, const char *name, const char *value)
{
    clt_secret *line = &a->lines[a->n_lines++];
    clt_secret_room(line, strlen(name) + strlen(value) + 2);
    clt_str_printf(line, "%s: %s", name, value);
}

/* Signs, and makes the address and the lines of the headers. */
static clt_status sign(const clt_s3_call *call, attempt *a)
{
    char hash[CLT_SHA256_TEXT], time[CLT_SIGV4_TIME];
    const char *payload =
        a->tls && call->body_size ? CLT_UNSIGNED_PAYLOAD : clt_sha256_text(call->body, call->body_size, hash);
    clt_pair headers[CLT_S3_PAIRS + 4] = {
        {"host", a->host}, {"x-amz-content-sha256", payload}, {"x-amz-date", clt_sigv4_time(a->time, time)}};
    int n = 3;
    if (a->keys.token[0])
        headers[n++] = (clt_pair){"x-amz-security-token", a->keys.token};
    for (int i = 0; i < call->n_headers; i++)
        if (strncmp(call->headers[i].name, "x-amz-", 6) == 0)
            headers[n++] = call->headers[i];
        else
            add_line(a, call->headers[i].name, call->headers[i].value);
    for (int i = 1; i < n; i++)
        add_line(a, headers[i].name, headers[i].value);
    const clt_sigv4 request = {.method = call->method,
                               .path = a->path.text,
                               .query = call->query,
                               .n_query = call->n_query,
                               .headers = headers,
                               .n_headers = n,
                               .payload = payload,
                               .service = "s3",
                               .region = a->region,
                               .access_key = a->keys.access,
                               .secret_key = a->keys.secret,
                               .time = a->time};
    CLT_TRY(clt_sigv4_sign(&request, &a->authorization));
    add_line(a, "Authorization", a->authorization.text);
    clt_str_printf(&a->url, "%s://%s%s%s", a->tls ? "https" : "http", a->host, a->path.text,
                   call->n_query ? "?" : "");
    CLT_TRY(clt_sigv4_query(call->query, call->n_query, &a->url));
    for (int i = 0; i < a->n_lines; i++)
        CLT_TRY(clt_str_check(&a->lines[i]));
    return clt_str_check(&a->url);
}

/* Takes a connection of the client that is not in use. */
static clt_status take_http(clt_s3 *s3, int *lane)
{
    CLT_LOCKED(&s3->lock);
    if (atomic_load(&s3->cancelled)) /* a connection that is opened now would not be cancelled */
        CLT_FAIL(CLT_EINTERRUPTED, "requests to object storage have been cancelled");
    for (*lane = 0; *lane < CLT_S3_LANES; ++*lane) {
        if (s3->busy[*lane])
            continue;
        if (!s3->http[*lane])
            CLT_TRY(clt_http_open(&s3->http[*lane]));
        s3->busy[*lane] = true;
        return CLT_OK;
    }
    CLT_FAIL(CLT_EINTERNAL, "more than %d requests to object storage at a time", CLT_S3_LANES);
}

static void give_http(clt_s3 *s3, int lane)
{
    CLT_LOCKED(&s3->lock);
    s3->busy[lane] = false;
}

static clt_status send(clt_http *http, const clt_s3 *s3, const clt_s3_call *call, const attempt *a,
                       clt_http_answer *answer)
{
    const char *lines[CLT_SIGV4_PAIRS + 3] = {NULL};
    double silence = call->silence_seconds;
    int n = 0;
    for (; n < a->n_lines; n++)
        lines[n] = a->lines[n].text;
    lines[n++] = "Expect:"; /* disables 100-continue: some servers do not answer it, which costs a second */
    lines[n] = call->body ? "Content-Type: application/octet-stream" : NULL;
    const clt_http_request request = {.method = call->method,
                                      .url = a->url.text,
                                      .headers = lines,
                                      .connect_seconds = CONNECT_SECONDS,
                                      .seconds = silence,
                                      .stall_seconds = silence > 0 ? 0 : STALL_SECONDS,
                                      .limit = call->limit,
                                      .body = call->body,
                                      .body_size = call->body_size,
                                      .sink = call->sink,
                                      .sink_context = call->sink_context,
                                      .proxies = !clt_host_is_local(a->url.text),
                                      .ca_file = s3->ca_file};
    if (call->restart)
        call->restart(call->sink_context);
    return clt_http_ask(http, &request, answer);
}

/* --- answers --- */

/* Parts of the answer, other than its code, that are needed after the connection has been released. */
typedef struct findings {
    char message[256], reason[256], region[64], location[400];
    char signed_region[64]; /* region and clock offset with which the request was signed: */
    double signed_offset;
    int64_t date;
    double retry_after;
    bool result_missing, too_large;
} findings;

static void copy(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text);
    clt_text_sanitise(out);
}

/* Reads the host from the header Location; "" if it would change the scheme (http or https). */
static void read_location(const char *location, bool tls, char *host, size_t size)
{
    clt_endpoint endpoint;
    char server[300];
    const char *scheme = tls ? "https://" : "http://";
    host[0] = '\0';
    if (strncmp(location, scheme, strlen(scheme)) != 0)
        return;
    snprintf(server, sizeof server, "%.*s", (int)(strlen(scheme) + strcspn(location + strlen(scheme), "/?#")),
             location);
    if (clt_endpoint_parse(server, "a redirection", "", &endpoint) == CLT_OK)
        snprintf(host, size, "%s", endpoint.host);
    else
        clt_error_clear();
}

static void read_answer(clt_http *http, const clt_s3_call *call, const attempt *a,
                        const clt_http_answer *answer, clt_s3_reply *reply, findings *f)
{
    clt_xml all = {.text = answer->body, .size = answer->size}, error, unused;
    *f = (findings){.signed_offset = a->clock_offset, .too_large = answer->too_large};
    snprintf(f->signed_region, sizeof f->signed_region, "%s", a->region);
    reply->code = answer->code;
    reply->error[0] = '\0';
    copy(f->reason, sizeof f->reason, answer->code ? "" : answer->reason);
    const char *etag = clt_http_header(http, "ETag");
    copy(reply->etag, sizeof reply->etag, strlen(etag) < sizeof reply->etag ? etag : "");
    copy(reply->sse, sizeof reply->sse, clt_http_header(http, "x-amz-server-side-encryption"));
    reply->length = 0;
    reply->has_length = clt_s3_parse_size(clt_http_header(http, "Content-Length"), &reply->length);
    f->retry_after = clt_retry_asked(http);
    copy(f->region, sizeof f->region, clt_http_header(http, "x-amz-bucket-region"));
    read_location(clt_http_header(http, "Location"), a->tls, f->location, sizeof f->location);
    if (!clt_date_http(clt_http_header(http, "Date"), &f->date))
        f->date = 0;
    reply->date = f->date;
    if ((answer->code < 200 || answer->code > 299 || call->result) &&
        clt_xml_find(all, "Error", &error, NULL)) {
        clt_xml_copy(error, "Code", reply->error, sizeof reply->error);
        clt_xml_copy(error, "Message", f->message, sizeof f->message);
        clt_text_sanitise(reply->error);
        clt_text_sanitise(f->message);
        if (!f->region[0])
            clt_xml_copy(error, "Region", f->region, sizeof f->region);
    }
    f->result_missing =
        answer->code == 200 && call->result && !clt_xml_find(all, call->result, &unused, NULL);
}

static clt_status keep_body(const clt_http_answer *answer, clt_s3_reply *reply)
{
    free(reply->body);
    reply->body = NULL;
    CLT_TRY(clt_alloc(&reply->body, answer->size + 1, 1, "an answer of object storage"));
    memcpy(reply->body, answer->body, answer->size);
    reply->size = answer->size;
    return CLT_OK;
}

static clt_status try_once(clt_s3 *s3, const clt_s3_call *call, const char *moved, clt_s3_reply *reply,
                           findings *f)
{
    CLT_SCOPED(attempt) a = {.tls = false};
    clt_http_answer answer;
    int lane;
    CLT_TRY(clt_credentials_get(s3->credentials, &a.keys));
    CLT_TRY(find_place(s3, call, moved, &a));
    CLT_TRY(sign(call, &a));
    CLT_TRY(take_http(s3, &lane));
    clt_http *http = s3->http[lane];
    clt_status status = send(http, s3, call, &a, &answer);
    if (status == CLT_OK) {
        read_answer(http, call, &a, &answer, reply, f);
        status = keep_body(&answer, reply);
    }
    give_http(s3, lane);
    return status;
}

/* --- retries --- */

static bool is_cancelled(void *context)
{
    return atomic_load(&((clt_s3 *)context)->cancelled);
}

/* Adopts the server's time, unless another call has done so since this request was signed. False: the server
 * gives no time. */
static bool set_clock(clt_s3 *s3, const findings *f)
{
    CLT_LOCKED(&s3->lock);
    if (fabs(s3->clock_offset - f->signed_offset) > 0)
        return true;
    if (!f->date)
        return false;
    s3->clock_offset = (double)f->date - clt_wall_time();
    CLT_WARN_ONCE(
        "the clock of this machine and of the server of s3://%s differ by %.0f s: requests are signed "
        "with the server's",
        s3->bucket, fabs(s3->clock_offset));
    return true;
}

/* True if the name of a region in an answer can be part of a signature. */
static bool is_region(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    return text[0] && !text[strspn(text, plain)];
}

/* Redirects the client to the region that the answer names, unless another call has done so since this
 * request was signed. If the answer names no other region, redirects this call only, to the host that it
 * names. */
static bool set_place(clt_s3 *s3, const findings *f, char *moved, size_t size)
{
    clt_endpoint endpoint;
    CLT_LOCKED(&s3->lock);
    if (strcmp(f->signed_region, s3->region) != 0)
        return true;
    if (f->region[0] && strcmp(f->region, s3->region) != 0) {
        if (!is_region(f->region))
            return false;
        if (!s3->own_endpoint && clt_endpoint_of_region(f->region, &endpoint) != CLT_OK) {
            clt_error_clear();
            return false;
        }
        if (!s3->own_endpoint)
            s3->endpoint = endpoint;
        snprintf(s3->region, sizeof s3->region, "%s", f->region);
        return true;
    }
    snprintf(moved, size, "%s", f->location);
    return moved[0] != '\0';
}

static clt_status give_up(const clt_s3 *s3, const clt_s3_call *call, const clt_s3_reply *reply,
                          const findings *f)
{
    char number[16], times[48];
    const char *hint = clt_s3_hint(reply->code, reply->error);
    snprintf(number, sizeof number, "%d", reply->code);
    snprintf(times, sizeof times, reply->attempts > 1 ? " (%d attempts)" : "", reply->attempts);
    if (f->too_large)
        CLT_FAIL(CLT_ESTORAGE, "s3://%s/%s: %s: the answer is too large: %s", s3->bucket, call->key,
                 call->method, f->reason);
    if (!reply->code)
        CLT_FAIL(CLT_ESTORAGE, "s3://%s/%s: %s: no answer: %s%s", s3->bucket, call->key, call->method,
                 f->reason, times);
    const char *right = strcmp(hint, CLT_S3_NO_RIGHT) == 0 ? clt_s3_right(call) : "";
    CLT_FAIL(CLT_ESTORAGE, "s3://%s/%s: %s: %s%s%s%s%s%s%s%s%s", s3->bucket, call->key, call->method, number,
             reply->error[0] ? " " : "", reply->error, f->message[0] ? ": " : "", f->message,
             hint[0] ? "; " : "", hint, right, times);
}

/* Guesses the cause of a failure from an answer that has a status number but no error code, such as an
 * answer to HEAD. */
static clt_s3_verdict guess(const clt_s3_reply *reply, const findings *f)
{
    if (f->region[0] && strcmp(f->region, f->signed_region) != 0)
        return CLT_S3_NEW_PLACE;
    if (f->date && fabs((double)f->date - clt_wall_time() - f->signed_offset) > CLOCK_SECONDS)
        return CLT_S3_NEW_CLOCK;
    return reply->code == 400 ? CLT_S3_NEW_KEYS : CLT_S3_GIVE_UP;
}

/* Decides what follows an answer. *again: the call must be tried again; the wait before that is over. */
static clt_status decide(clt_s3 *s3, const clt_s3_call *call, clt_s3_reply *reply, const findings *f,
                         int mended[CLT_S3_GIVE_UP + 1], char *moved, size_t size, bool *again)
{
    clt_s3_verdict verdict = clt_s3_judge(reply->code, reply->error, f->result_missing);
    if (verdict == CLT_S3_GIVE_UP && !reply->error[0] && (reply->code == 400 || reply->code == 403))
        verdict = guess(reply, f);
    *again = false;
    if (atomic_load(&s3->cancelled))
        CLT_FAIL(CLT_EINTERRUPTED, "s3://%s/%s: %s: cancelled", s3->bucket, call->key, call->method);
    if (verdict == CLT_S3_DONE ||
        (reply->code == 404 && call->may_lack && strcmp(reply->error, "NoSuchBucket") != 0))
        return CLT_OK;
    if (f->too_large)
        return give_up(s3, call, reply, f);
    if (verdict == CLT_S3_AGAIN || verdict == CLT_S3_SLOWER) {
        if (reply->attempts >= s3->attempts || (call->no_retry && *call->no_retry))
            return give_up(s3, call, reply, f);
        const double delay = clt_retry_wait(reply->attempts, verdict, reply->code, f->retry_after);
        CLT_DEBUG("s3://%s/%s: %s: %d %s%s: again after %.2f s", s3->bucket, call->key, call->method,
                  reply->code, reply->error, f->reason, delay);
        *again = true;
        (void)clt_retry_sleep(delay, is_cancelled,
                              s3); /* the next attempt notices if the client was cancelled */
        return CLT_OK;
    }
    if (verdict == CLT_S3_NEW_CLOCK)
        *again = ++mended[verdict] <= 1 && set_clock(s3, f);
    if (verdict == CLT_S3_NEW_PLACE)
        *again = ++mended[verdict] <= MOVES && set_place(s3, f, moved, size);
    if (verdict == CLT_S3_NEW_KEYS && ++mended[verdict] <= 1) {
        clt_credentials_expired(s3->credentials);
        *again = true;
    }
    return *again ? CLT_OK : give_up(s3, call, reply, f);
}

clt_status clt_s3_perform(clt_s3 *s3, const clt_s3_call *call, clt_s3_reply *reply)
{
    int mended[CLT_S3_GIVE_UP + 1] = {0};
    char moved[400] = "";
    findings f;
    for (bool again = true; again;) {
        if (atomic_load(&s3->cancelled))
            CLT_FAIL(CLT_EINTERRUPTED, "s3://%s/%s: %s: cancelled", s3->bucket, call->key, call->method);
        reply->attempts++;
        clt_status status = try_once(s3, call, moved, reply, &f);
        if (status != CLT_OK && atomic_load(&s3->cancelled))
            CLT_FAIL(CLT_EINTERRUPTED, "s3://%s/%s: %s: cancelled", s3->bucket, call->key, call->method);
        CLT_TRY(status);
        CLT_TRY(decide(s3, call, reply, &f, mended, moved, sizeof moved, &again));
    }
    return CLT_OK;
}
