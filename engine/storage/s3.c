/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds the settings of the client of object storage, and makes calls for whole objects. */
#include "engine/storage/s3.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/thread.h"
#include "engine/storage/s3_internal.h"
#include "engine/storage/xml.h"

#define ATTEMPTS 8
#define ANSWER_LIMIT                                                                                         \
    (16 << 20) /* most bytes of an answer that is not an object: even a page of 1000 long keys is smaller */

/* --- settings --- */

static const char *given(const char *option, const char *const *variables)
{
    const char *value = option;
    for (; *variables && (!value || !value[0]); variables++)
        value = getenv(*variables);
    return value && value[0] ? value : NULL;
}

static const char *in_profile(const clt_s3 *s3, const char *key)
{
    return clt_profile_get(s3->profile, clt_profile_name(s3->profile), CLT_PROFILE_CONFIG, key);
}

static clt_status take_text(const char *text, const char *what, char *buffer, size_t size)
{
    size_t length = text ? strlen(text) : 0;
    if (length >= size)
        CLT_FAIL(CLT_EUSAGE, "%s: has %zu characters; the most are %zu", what, length, size - 1);
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            CLT_FAIL(CLT_EUSAGE, "%s: has a character beyond ASCII, or a control character", what);
    snprintf(buffer, size, "%s", text ? text : "");
    return CLT_OK;
}

static clt_status choose_server(clt_s3 *s3, const clt_s3_options *o)
{
    static const char *const regions[] = {"AWS_REGION", "AWS_DEFAULT_REGION", NULL},
                             *const endpoints[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", NULL};
    static const char *const none[] = {NULL};
    const char *ignored = getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), *region = given(o->region, regions);
    bool ignores = ignored && strcasecmp(ignored, "true") == 0;
    const char *server = given(o->endpoint, ignores ? none : endpoints);
    if (!region)
        region = in_profile(s3, "region");
    if (!server && !ignores)
        server = in_profile(s3, "endpoint_url");
    CLT_TRY(take_text(region ? region : "us-east-1", "the region", s3->region, sizeof s3->region));
    snprintf(s3->named_region, sizeof s3->named_region, "%s", s3->region);
    s3->own_endpoint = server != NULL;
    if (!server)
        return clt_endpoint_of_region(s3->region, &s3->endpoint);
    return clt_endpoint_parse(server, "the address of the server of object storage",
                              o->allow_http ? o->allow_http : "", &s3->endpoint);
}

static clt_status choose(clt_s3 *s3, const clt_s3_options *o)
{
    static const char *const bundles[] = {"AWS_CA_BUNDLE", NULL};
    const char *ca_file = given(NULL, bundles);
    CLT_TRY(clt_profile_open(&s3->profile));
    CLT_TRY(choose_server(s3, o));
    CLT_TRY(take_text(ca_file ? ca_file : in_profile(s3, "ca_bundle"), "AWS_CA_BUNDLE", s3->ca_file,
                      sizeof s3->ca_file));
    CLT_TRY(take_text(o->sse, "storage.sse", s3->sse, sizeof s3->sse));
    CLT_TRY(take_text(o->kms_key, "storage.kms_key", s3->kms_key, sizeof s3->kms_key));
    if (s3->kms_key[0] && strncmp(s3->sse, "aws:kms", 7) != 0)
        CLT_FAIL(CLT_EUSAGE, "storage.kms_key: is used only with storage.sse aws:kms");
    s3->attempts = o->attempts > 0 ? o->attempts : ATTEMPTS;
    return clt_credentials_open(s3->profile, s3->named_region, s3->ca_file, &s3->credentials);
}

/* Creates a client that cannot send requests yet. */
static clt_status create(const char *bucket, const clt_s3_options *options, clt_s3 **out)
{
    CLT_SCOPED(clt_s3) *s3 = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&s3, 1, sizeof *s3, "a client of object storage"));
    pthread_mutex_init(&s3->lock, NULL);
    snprintf(s3->bucket, sizeof s3->bucket, "%s", bucket);
    CLT_TRY(choose(s3, options));
    *out = CLT_TAKE(s3);
    return CLT_OK;
}

clt_status clt_s3_describe(const clt_s3_options *options, clt_s3_setup *out)
{
    CLT_SCOPED(clt_s3) *s3 = NULL;
    *out = (clt_s3_setup){.keys = ""};
    CLT_TRY(create("", options, &s3));
    const char *profile = clt_profile_name(s3->profile);
    if (clt_profile_exists(s3->profile, profile))
        snprintf(out->profile, sizeof out->profile, "%s", profile);
    snprintf(out->server, sizeof out->server, "%s://%s", s3->endpoint.tls ? "https" : "http",
             s3->endpoint.host);
    snprintf(out->region, sizeof out->region, "%s", s3->region);
    clt_credentials_describe(s3->credentials, out->keys, sizeof out->keys);
    return CLT_OK;
}

clt_status clt_s3_open(const char *bucket, const clt_s3_options *options, clt_s3 **out)
{
    CLT_SCOPED(clt_s3) *s3 = NULL;
    *out = NULL;
    CLT_TRY(create(bucket, options, &s3));
    CLT_TRY(clt_http_open(&s3->http[0])); /* fails before anything is sent if libcurl is missing */
    *out = CLT_TAKE(s3);
    return CLT_OK;
}

void clt_s3_close(clt_s3 *s3)
{
    if (!s3)
        return;
    for (int i = 0; i < CLT_S3_LANES; i++)
        clt_http_close(s3->http[i]);
    clt_credentials_close(s3->credentials);
    clt_profile_close(s3->profile);
    pthread_mutex_destroy(&s3->lock);
    free(s3);
}

void clt_s3_cancel(clt_s3 *s3)
{
    atomic_store(&s3->cancelled, true);
    clt_credentials_cancel(s3->credentials);
    CLT_LOCKED(&s3->lock);
    for (int i = 0; i < CLT_S3_LANES; i++)
        if (s3->http[i])
            clt_http_cancel(s3->http[i]);
}

const char *clt_s3_key_source(clt_s3 *s3)
{
    return clt_credentials_source(s3->credentials);
}

/* --- objects --- */

void clt_s3_encrypt(const clt_s3 *s3, clt_s3_call *call)
{
    if (s3->sse[0])
        clt_s3_add_header(call, "x-amz-server-side-encryption", s3->sse);
    if (s3->kms_key[0])
        clt_s3_add_header(call, "x-amz-server-side-encryption-aws-kms-key-id", s3->kms_key);
}

clt_status clt_s3_check_encrypted(const clt_s3 *s3, const char *key, const clt_s3_reply *reply)
{
    if (s3->sse[0] && strcmp(reply->sse, s3->sse) != 0)
        CLT_FAIL(CLT_ESTORAGE,
                 "s3://%s/%s: the server has accepted the object, but does not say that it has encrypted it "
                 "as storage.sse asks",
                 s3->bucket, key);
    return CLT_OK;
}

clt_status clt_s3_put(clt_s3 *s3, const char *key, const void *data, size_t size)
{
    CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
    clt_s3_call call = {
        .method = "PUT", .key = key, .body = size ? data : "", .body_size = size, .limit = ANSWER_LIMIT};
    clt_s3_encrypt(s3, &call);
    CLT_TRY(clt_s3_perform(s3, &call, &reply));
    return clt_s3_check_encrypted(s3, key, &reply);
}

clt_status clt_s3_head(clt_s3 *s3, const char *key, clt_s3_object *out, bool *there)
{
    CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
    const clt_s3_call call = {.method = "HEAD", .key = key, .limit = ANSWER_LIMIT, .may_lack = there != NULL};
    CLT_TRY(clt_s3_perform(s3, &call, &reply));
    if (there)
        *there = reply.code == 200;
    if (reply.code == 200 && !reply.has_length)
        CLT_FAIL(CLT_ESTORAGE, "s3://%s/%s: HEAD: the answer does not say how large the object is",
                 s3->bucket, key);
    *out = (clt_s3_object){.key = key, .size = reply.length};
    snprintf(out->etag, sizeof out->etag, "%s", reply.etag);
    return CLT_OK;
}

/* A range of an object that is downloaded into memory. */
typedef struct filling {
    char *data;
    size_t size, done;
    bool over; /* more came */
} filling;

static bool fill(void *context, const void *bytes, size_t size)
{
    filling *f = context;
    f->over = size > f->size - f->done;
    if (f->over)
        return false;
    memcpy(f->data + f->done, bytes, size);
    f->done += size;
    return true;
}

static void refill(void *context)
{
    ((filling *)context)->done = 0;
}

clt_status clt_s3_no_ranges(const clt_s3 *s3, const char *key, uint64_t size)
{
    CLT_FAIL(CLT_ESTORAGE,
             "s3://%s/%s: GET: the server sends more than the %" PRIu64
             " bytes that were requested: the server, or a cache or proxy in front of it, ignores ranged "
             "reads (the header Range), which cltrain needs; name another server by storage.endpoint",
             s3->bucket, key, size);
}

clt_status clt_s3_get(clt_s3 *s3, const char *key, const char *etag, uint64_t from, void *data, size_t size)
{
    CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
    filling f = {.data = data, .size = size};
    char range[64];
    clt_s3_call call = {.method = "GET",
                        .key = key,
                        .limit = ANSWER_LIMIT,
                        .sink = fill,
                        .restart = refill,
                        .sink_context = &f,
                        .no_retry = &f.over};
    bool named = etag && etag[0];
    if (size == 0)
        return CLT_OK;
    snprintf(range, sizeof range, "bytes=%" PRIu64 "-%" PRIu64, from, from + size - 1);
    clt_s3_add_header(&call, "Range", range);
    if (named)
        clt_s3_add_header(&call, "If-Match", etag);
    clt_status status = clt_s3_perform(s3, &call, &reply);
    CLT_TRY(f.over ? clt_s3_no_ranges(s3, key, size) : status);
    if (f.done != size || (reply.code != 206 && from != 0) || (named && strcmp(etag, reply.etag) != 0))
        CLT_FAIL(CLT_ESTORAGE, "s3://%s/%s: bytes from %" PRIu64 " on: %zu of %zu came, with the answer %d%s",
                 s3->bucket, key, from, f.done, size, reply.code,
                 named && strcmp(etag, reply.etag) != 0 ? ", of an object that was replaced meanwhile" : "");
    return CLT_OK;
}

clt_status clt_s3_read(clt_s3 *s3, const char *key, size_t limit, char **data, size_t *size, bool *there)
{
    CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
    const clt_s3_call call = {.method = "GET", .key = key, .limit = limit, .may_lack = there != NULL};
    *data = NULL;
    *size = 0;
    CLT_TRY(clt_s3_perform(s3, &call, &reply));
    if (there)
        *there = reply.code == 200;
    if (reply.code == 404)
        return CLT_OK;
    if (reply.code != 200)
        CLT_FAIL(CLT_ESTORAGE, "s3://%s/%s: GET: an unexpected answer %d", s3->bucket, key, reply.code);
    *data = CLT_TAKE(reply.body);
    *size = reply.size;
    return CLT_OK;
}

clt_status clt_s3_delete(clt_s3 *s3, const char *key, bool *refused)
{
    CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
    const clt_s3_call call = {.method = "DELETE", .key = key, .limit = ANSWER_LIMIT, .may_lack = true};
    clt_status status = clt_s3_perform(s3, &call, &reply);
    if (refused)
        *refused = status != CLT_OK && reply.code == 403;
    return status;
}

/* --- lists --- */

void clt_s3_list_free(clt_s3_list *list)
{
    free(list->object);
    clt_arena_destroy(list->keys);
    *list = (clt_s3_list){.count = 0};
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* Decodes a key that encoding-type=url has encoded, in place. */
static void decode_url(char *text)
{
    char *out = text;
    for (const char *c = text; *c; c++) {
        int high = *c == '%' ? hex(c[1]) : -1, low = high >= 0 ? hex(c[2]) : -1;
        char decoded = *c == '+' ? ' ' : *c;
        if (low >= 0) {
            decoded = (char)(high << 4 | low);
            c += 2;
        }
        *out++ = decoded;
    }
    *out = '\0';
}

static clt_status add_object(clt_s3_list *list, clt_xml contents, const char *prefix, bool encoded)
{
    CLT_SCOPED(clt_str) key = {0};
    char size[32];
    clt_xml element;
    if (!clt_xml_find(contents, "Key", &element, NULL) || !clt_xml_copy(contents, "Size", size, sizeof size))
        CLT_FAIL(CLT_ESTORAGE, "a list of objects has an entry without a key or a size");
    clt_xml_text(element, &key);
    CLT_TRY(clt_str_check(&key));
    if (encoded)
        decode_url(key.text);
    if (strncmp(key.text, prefix, strlen(prefix)) != 0)
        CLT_FAIL(CLT_ESTORAGE, "a list of the keys that begin with '%s' has a key that does not", prefix);
    CLT_TRY(
        clt_grow(&list->object, &list->capacity, list->count + 1, sizeof *list->object, "a list of objects"));
    clt_s3_object *o = &list->object[list->count];
    o->key = clt_arena_strdup(list->keys, key.text);
    if (!o->key)
        return CLT_ENOMEM;
    if (!clt_s3_parse_size(size, &o->size))
        CLT_FAIL(CLT_ESTORAGE, "a list of objects has an entry whose size is not a number");
    if (!clt_xml_copy(contents, "ETag", o->etag, sizeof o->etag))
        o->etag[0] = '\0';
    list->count++;
    return CLT_OK;
}

/* Adds the objects of one page of the list of `prefix`. token: where this page begins; becomes the beginning
 * of the next page, "" after the last one. */
static clt_status add_page(const clt_s3 *s3, const clt_s3_reply *reply, const char *prefix, clt_s3_list *list,
                           char *token, size_t size)
{
    clt_xml page = {.text = reply->body, .size = reply->size}, contents, rest = page;
    char encoding[16], truncated[16];
    clt_xml_copy(page, "EncodingType", encoding, sizeof encoding);
    clt_xml_copy(page, "IsTruncated", truncated, sizeof truncated);
    while (clt_xml_find(rest, "Contents", &contents, &rest))
        CLT_TRY(clt_fail_prefix(add_object(list, contents, prefix, strcmp(encoding, "url") == 0),
                                "s3://%s: ", s3->bucket));
    token[0] = '\0';
    if (strcmp(truncated, "true") == 0 && !clt_xml_copy(page, "NextContinuationToken", token, size))
        CLT_FAIL(CLT_ESTORAGE, "s3://%s: an incomplete list of objects lacks the token of its next part",
                 s3->bucket);
    return CLT_OK;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const clt_s3_object *)a)->key, ((const clt_s3_object *)b)->key);
}

clt_status clt_s3_list_all(clt_s3 *s3, const char *prefix, clt_s3_list *list)
{
    char token[2048] = "", before[2048];
    CLT_TRY(clt_arena_create(&list->keys));
    do {
        CLT_SCOPED(clt_s3_reply) reply = {.code = 0};
        clt_s3_call call = {.method = "GET", .key = "", .limit = ANSWER_LIMIT, .result = "ListBucketResult"};
        clt_s3_add_query(&call, "list-type", "2");
        clt_s3_add_query(&call, "encoding-type", "url");
        clt_s3_add_query(&call, "prefix", prefix);
        if (token[0])
            clt_s3_add_query(&call, "continuation-token", token);
        snprintf(before, sizeof before, "%s", token);
        CLT_TRY(clt_s3_perform(s3, &call, &reply));
        CLT_TRY(add_page(s3, &reply, prefix, list, token, sizeof token));
        if (token[0] && strcmp(token, before) == 0)
            CLT_FAIL(CLT_ESTORAGE, "s3://%s: the list of objects repeats itself", s3->bucket);
    } while (token[0]);
    if (list->count > 1)
        qsort(list->object, list->count, sizeof *list->object, compare_keys);
    return CLT_OK;
}
