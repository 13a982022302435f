/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes HTTP requests with libcurl, which no other file uses. The functions of libcurl are looked up by
 * name, since the program is not linked with it. Requests use libcurl's multi interface, which another
 * thread can wake up to cancel one. */
#include "engine/cloud/http.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/mem.h"

#if CLT_HAVE_CURL
#include <curl/curl.h>

#define FUNCTIONS(X)                                                                                         \
    X(CURLcode, global_init, (long))                                                                         \
    X(CURL *, easy_init, (void))                                                                             \
    X(CURLcode, easy_setopt, (CURL *, CURLoption, ...))                                                      \
    X(CURLcode, easy_getinfo, (CURL *, CURLINFO, ...))                                                       \
    X(void, easy_reset, (CURL *))                                                                            \
    X(void, easy_cleanup, (CURL *))                                                                          \
    X(const char *, easy_strerror, (CURLcode))                                                               \
    X(struct curl_slist *, slist_append, (struct curl_slist *, const char *))                                \
    X(void, slist_free_all, (struct curl_slist *))                                                           \
    X(CURLM *, multi_init, (void))                                                                           \
    X(CURLMcode, multi_add_handle, (CURLM *, CURL *))                                                        \
    X(CURLMcode, multi_remove_handle, (CURLM *, CURL *))                                                     \
    X(CURLMcode, multi_perform, (CURLM *, int *))                                                            \
    X(CURLMcode, multi_poll, (CURLM *, struct curl_waitfd *, unsigned, int, int *))                          \
    X(CURLMcode, multi_wakeup, (CURLM *))                                                                    \
    X(CURLMsg *, multi_info_read, (CURLM *, int *))                                                          \
    X(CURLMcode, multi_cleanup, (CURLM *))

typedef struct curl_functions {
#define MEMBER(type, name, arguments) type(*name) arguments;
    FUNCTIONS(MEMBER)
#undef MEMBER
} curl_functions;

/* Numbers of options that older versions of curl.h lack: the allowed protocols as text (7.85) and as bits;
 * ending without waiting for a host name that is still being resolved (7.87). */
enum { PROTOCOLS_TEXT = 10318, PROTOCOLS_BITS = 181, BITS_HTTP_HTTPS = 3, QUICK_EXIT = 322 };

#define HEADERS_SIZE 8192
#define POLL_MS 1000
#define BUFFER_SIZE (512 * 1024) /* buffers of libcurl in bytes, for bodies that may be large */
#define SLOW_BYTES 1024          /* a second */

struct clt_http {
    CURLM *multi;
    CURL *easy;
    atomic_bool cancelled;
    char *body;
    size_t size, room;
    const clt_http_request *request; /* the request in progress */
    char headers[HEADERS_SIZE];      /* the newest answer's headers, each ended by a line feed */
    size_t headers_size;
    char value[512];
    char error[CURL_ERROR_SIZE];
    bool too_large; /* the newest answer is larger than its limit */
};

static curl_functions curl;
static char why_not[256]; /* why libcurl cannot be used; "": it is loaded */

static void load(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why_not, sizeof why_not, "libcurl is not installed (on Debian and Ubuntu: libcurl4)");
        return;
    }
#define LOOK_UP(type, name, arguments)                                                                       \
    *(void **)&curl.name = dlsym(library, "curl_" #name);                                                    \
    if (!curl.name && !why_not[0])                                                                           \
        snprintf(why_not, sizeof why_not, "libcurl is too old: it has no function curl_%s", #name);
    FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    if (!why_not[0] && curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        snprintf(why_not, sizeof why_not, "libcurl cannot be initialised");
}

/* How the thread handled SIGPIPE before libcurl was called. */
typedef struct quiet_pipe {
    sigset_t before;
    bool waits; /* a SIGPIPE was pending */
} quiet_pipe;

/* Blocks SIGPIPE in this thread: older versions of OpenSSL write to a connection without MSG_NOSIGNAL, and
 * if the server has closed it, SIGPIPE would end the process. The handlers of signals belong to the program
 * and stay as they are. */
static quiet_pipe begin_quiet(sigset_t *pipe)
{
    quiet_pipe q;
    sigset_t waiting;
    sigemptyset(pipe);
    sigaddset(pipe, SIGPIPE);
    sigemptyset(&waiting);
    (void)sigpending(&waiting);
    q.waits = sigismember(&waiting, SIGPIPE) == 1;
    (void)pthread_sigmask(SIG_BLOCK, pipe, &q.before);
    return q;
}

/* Removes the SIGPIPE that libcurl has caused, and restores the thread's signal mask. */
static void end_quiet(const quiet_pipe *q, const sigset_t *pipe)
{
    const struct timespec at_once = {0};
    while (!q->waits && sigtimedwait(pipe, NULL, &at_once) < 0 && errno == EINTR) {
    }
    (void)pthread_sigmask(SIG_SETMASK, &q->before, NULL);
}

clt_status clt_http_open(clt_http **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    *out = NULL;
    pthread_once(&once, load);
    if (why_not[0])
        CLT_FAIL(CLT_EUNSUPPORTED, "requests by HTTP: %s", why_not);
    clt_http *http;
    CLT_TRY(clt_alloc(&http, 1, sizeof *http, "a connection by HTTP"));
    http->multi = curl.multi_init();
    http->easy = curl.easy_init();
    if (!http->multi || !http->easy) {
        clt_http_close(http);
        CLT_FAIL(CLT_ENOMEM, "libcurl has no memory for a connection");
    }
    *out = http;
    return CLT_OK;
}

void clt_http_close(clt_http *http)
{
    sigset_t pipe;
    if (!http)
        return;
    const quiet_pipe quiet = begin_quiet(&pipe);
    if (http->easy)
        curl.easy_cleanup(http->easy);
    if (http->multi)
        curl.multi_cleanup(http->multi);
    end_quiet(&quiet, &pipe);
    clt_http_forget(http);
    free(http->body);
    free(http);
}

void clt_http_forget(clt_http *http)
{
    if (http->body)
        explicit_bzero(http->body, http->room);
    http->size = 0;
}

void clt_http_cancel(clt_http *http)
{
    atomic_store(&http->cancelled, true);
    curl.multi_wakeup(http->multi);
}

/* libcurl's callbacks: returning less than `count` ends the request. */
static size_t take_body(char *bytes, size_t one, size_t count, void *context)
{
    clt_http *http = context;
    long code = 0;
    (void)one; /* always 1 */
    if (http->request->sink)
        curl.easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &code);
    if (code == 200 || code == 206)
        return http->request->sink(http->request->sink_context, bytes, count) ? count : 0;
    if (count > http->request->limit - http->size) {
        http->too_large = true;
        return 0;
    }
    if (http->size + count + 1 > http->room) {
        size_t room = 2 * (http->size + count + 1);
        char *larger = malloc(room);
        if (!larger)
            return 0;
        if (http->size)
            memcpy(larger, http->body, http->size);
        if (http->body)
            explicit_bzero(http->body, http->room);
        free(http->body);
        http->body = larger;
        http->room = room;
    }
    memcpy(http->body + http->size, bytes, count);
    http->size += count;
    return count;
}

static size_t take_header(char *bytes, size_t one, size_t count, void *context)
{
    clt_http *http = context;
    (void)one;
    if (count >= 5 && memcmp(bytes, "HTTP/", 5) == 0)
        http->headers_size = 0; /* a preliminary answer such as 100 came before this one */
    if (count < HEADERS_SIZE - http->headers_size) {
        memcpy(http->headers + http->headers_size, bytes, count);
        http->headers_size += count;
    }
    return count;
}

const char *clt_http_header(clt_http *http, const char *name)
{
    size_t length = strlen(name);
    http->headers[http->headers_size] = '\0';
    for (const char *line = http->headers; *line;) {
        size_t width = strcspn(line, "\r\n");
        if (width > length && line[length] == ':' && strncasecmp(line, name, length) == 0) {
            const char *from = line + length + 1, *end = line + width;
            while (from < end && (*from == ' ' || *from == '\t'))
                from++;
            while (end > from && (end[-1] == ' ' || end[-1] == '\t'))
                end--;
            snprintf(http->value, sizeof http->value, "%.*s", (int)(end - from), from);
            return http->value;
        }
        line += width;
        line += strspn(line, "\r\n");
    }
    return "";
}

/* Sets the body that a request sends, and large buffers. */
static void set_body(CURL *e, const clt_http_request *r)
{
    if (strcmp(r->method, "HEAD") == 0)
        curl.easy_setopt(e, CURLOPT_NOBODY, 1L);
    if (r->sink)
        curl.easy_setopt(e, CURLOPT_BUFFERSIZE, (long)BUFFER_SIZE);
    if (!r->body)
        return;
    curl.easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_size);
    curl.easy_setopt(e, CURLOPT_POSTFIELDS, r->body); /* libcurl does not copy the body */
    curl.easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER_SIZE);
}

static void set_options(clt_http *http, const clt_http_request *r, struct curl_slist *headers)
{
    CURL *e = http->easy;
    curl.easy_reset(e);
    set_body(e, r);
    curl.easy_setopt(e, CURLOPT_URL, r->url);
    curl.easy_setopt(e, CURLOPT_CUSTOMREQUEST, r->method);
    curl.easy_setopt(e, CURLOPT_HTTPHEADER, headers);
    curl.easy_setopt(e, CURLOPT_USERAGENT, "cltrain/" CLT_VERSION);
    curl.easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    if (!r->proxies)
        curl.easy_setopt(e, CURLOPT_NOPROXY, "*");
    if (r->ca_file && r->ca_file[0])
        curl.easy_setopt(e, CURLOPT_CAINFO, r->ca_file);
    curl.easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2); /* or a newer version */
    curl.easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    curl.easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl.easy_setopt(e, (CURLoption)QUICK_EXIT, 1L);
    if (curl.easy_setopt(e, (CURLoption)PROTOCOLS_TEXT, "http,https") != CURLE_OK)
        curl.easy_setopt(e, (CURLoption)PROTOCOLS_BITS, (long)BITS_HTTP_HTTPS);
    curl.easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)(r->connect_seconds * 1e3));
    curl.easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)(r->seconds * 1e3));
    curl.easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)r->stall_seconds);
    curl.easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, r->stall_seconds > 0 ? (long)SLOW_BYTES : 0L);
    curl.easy_setopt(e, CURLOPT_WRITEFUNCTION, take_body);
    curl.easy_setopt(e, CURLOPT_WRITEDATA, (void *)http);
    curl.easy_setopt(e, CURLOPT_HEADERFUNCTION, take_header);
    curl.easy_setopt(e, CURLOPT_HEADERDATA, (void *)http);
    curl.easy_setopt(e, CURLOPT_ERRORBUFFER, http->error);
}

/* Runs the request to its end. CURLE_ABORTED_BY_CALLBACK: it was cancelled. */
static CURLcode perform(clt_http *http)
{
    int running = 1, left;
    while (running) {
        if (atomic_load(&http->cancelled))
            return CURLE_ABORTED_BY_CALLBACK;
        if (curl.multi_perform(http->multi, &running) != CURLM_OK)
            return CURLE_FAILED_INIT;
        if (running)
            curl.multi_poll(http->multi, NULL, 0, POLL_MS, NULL);
    }
    const CURLMsg *message = curl.multi_info_read(http->multi, &left);
    return message && message->msg == CURLMSG_DONE ? message->data.result : CURLE_FAILED_INIT;
}

clt_status clt_http_ask(clt_http *http, const clt_http_request *r, clt_http_answer *answer)
{
    struct curl_slist *headers = NULL;
    *answer = (clt_http_answer){.body = "", .reason = ""};
    for (const char *const *line = r->headers; line && *line; line++) {
        struct curl_slist *more = curl.slist_append(headers, *line);
        if (!more) {
            curl.slist_free_all(headers);
            CLT_FAIL(CLT_ENOMEM, "libcurl has no memory for a request");
        }
        headers = more;
    }
    http->size = http->headers_size = 0;
    http->request = r;
    http->error[0] = '\0';
    http->too_large = false;
    set_options(http, r, headers);
    CURLcode code = CURLE_FAILED_INIT;
    sigset_t pipe;
    const quiet_pipe quiet = begin_quiet(&pipe);
    if (curl.multi_add_handle(http->multi, http->easy) == CURLM_OK) {
        code = perform(http);
        curl.multi_remove_handle(http->multi, http->easy);
    }
    end_quiet(&quiet, &pipe);
    long number = 0;
    if (code == CURLE_OK)
        curl.easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &number);
    curl.easy_reset(http->easy); /* libcurl must not refer to the headers */
    curl.slist_free_all(headers);
    if (http->body)
        http->body[http->size] = '\0';
    answer->code = (int)number;
    answer->body = http->body ? http->body : "";
    answer->size = http->size;
    answer->too_large = http->too_large;
    if (http->too_large)
        snprintf(http->error, sizeof http->error, "it has more than %zu bytes", r->limit);
    answer->reason = http->error[0] ? http->error : curl.easy_strerror(code);
    return CLT_OK;
}

#else

struct clt_http {
    int none;
};

clt_status clt_http_open(clt_http **out)
{
    *out = NULL;
    CLT_FAIL(CLT_EUNSUPPORTED, "requests by HTTP: this program was built without libcurl's header "
                               "(on Debian and Ubuntu: libcurl4-openssl-dev)");
}

void clt_http_close(clt_http *http)
{
    (void)http;
}

clt_status clt_http_ask(clt_http *http, const clt_http_request *request, clt_http_answer *answer)
{
    (void)http, (void)request, (void)answer;
    CLT_FAIL(CLT_EUNSUPPORTED, "requests by HTTP: this program was built without libcurl's header");
}

const char *clt_http_header(clt_http *http, const char *name)
{
    (void)http, (void)name;
    return "";
}

void clt_http_forget(clt_http *http)
{
    (void)http;
}

void clt_http_cancel(clt_http *http)
{
    (void)http;
}
#endif
