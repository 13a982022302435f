/* SPDX-License-Identifier: Apache-2.0
 *
 * What an answer of object storage means, and how long to wait before a request is repeated: AWS's "standard"
 * rules for retries. */
#include <math.h>
#include <string.h>

#include "engine/storage/s3_internal.h"

#define FIRST_SECONDS 0.05
#define FIRST_SECONDS_SLOWER 1.0
#define MOST_SECONDS 20.0

typedef struct rule {
    const char *error;
    clt_s3_verdict verdict;
} rule;

static const rule rules[] = {
    {"RequestTimeTooSkewed", CLT_S3_NEW_CLOCK},
    {"PermanentRedirect", CLT_S3_NEW_PLACE},
    {"TemporaryRedirect", CLT_S3_NEW_PLACE},
    {"AuthorizationHeaderMalformed", CLT_S3_NEW_PLACE},
    {"IllegalLocationConstraintException", CLT_S3_NEW_PLACE},
    {"ExpiredToken", CLT_S3_NEW_KEYS},
    {"TokenRefreshRequired", CLT_S3_NEW_KEYS},
    {"SlowDown", CLT_S3_SLOWER},
    {"ServiceUnavailable", CLT_S3_SLOWER},
    {"Throttling", CLT_S3_SLOWER},
    {"ThrottlingException", CLT_S3_SLOWER},
    {"TooManyRequests", CLT_S3_SLOWER},
    {"RequestLimitExceeded", CLT_S3_SLOWER},
    {"InternalError", CLT_S3_AGAIN},
    {"RequestTimeout", CLT_S3_AGAIN},
    {"RequestTimeoutException", CLT_S3_AGAIN},
    {"OperationAborted", CLT_S3_AGAIN},
    {"ConditionalRequestConflict", CLT_S3_AGAIN},
    {"XAmzContentSHA256Mismatch", CLT_S3_AGAIN}, /* the body was damaged on its way */
    {"BadDigest", CLT_S3_AGAIN},
    {"IncompleteBody", CLT_S3_AGAIN},
};

bool clt_s3_parse_size(const char *text, uint64_t *out)
{
    uint64_t size = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || size > (uint64_t)(INT64_MAX - (*c - '0')) / 10)
            return false;
        size = size * 10 + (uint64_t)(*c - '0');
    }
    *out = size;
    return text[0] != '\0';
}

clt_s3_verdict clt_s3_judge(int code, const char *error, bool result_missing)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].error, error) == 0)
            return rules[i].verdict;
    if (code == 429 || code == 503)
        return CLT_S3_SLOWER;
    if (code == 0 || code == 408 || (code >= 500 && code != 501))
        return CLT_S3_AGAIN;
    if (code == 301 || code == 307 || code == 308)
        return CLT_S3_NEW_PLACE;
    if (code < 200 || code > 299 || error[0])
        return CLT_S3_GIVE_UP;
    return result_missing ? CLT_S3_AGAIN : CLT_S3_DONE;
}

double clt_s3_delay(int attempt, bool slower, double chance)
{
    double most = ldexp(slower ? FIRST_SECONDS_SLOWER : FIRST_SECONDS, attempt < 32 ? attempt - 1 : 31);
    return chance * (most < MOST_SECONDS ? most : MOST_SECONDS);
}

const char *clt_s3_right(const clt_s3_call *call)
{
    bool upload = false, uploads = false;
    for (int i = 0; i < call->n_query; i++) {
        upload = upload || strcmp(call->query[i].name, "uploadId") == 0;
        uploads = uploads || strcmp(call->query[i].name, "uploads") == 0;
    }
    if (!call->key[0])
        return uploads ? "s3:ListBucketMultipartUploads" : "s3:ListBucket";
    if (strcmp(call->method, "DELETE") == 0)
        return upload ? "s3:AbortMultipartUpload" : "s3:DeleteObject";
    return strcmp(call->method, "GET") == 0 || strcmp(call->method, "HEAD") == 0 ? "s3:GetObject"
                                                                                 : "s3:PutObject";
}

const char *clt_s3_hint(int code, const char *error)
{
    static const struct {
        const char *error, *hint;
    } hints[] = {
        {"SignatureDoesNotMatch", "the secret key is wrong"},
        {"InvalidAccessKeyId", "the server does not know this access key"},
        {"NoSuchBucket", "there is no such bucket"},
        {"AccessDenied", CLT_S3_NO_RIGHT},
        {"PreconditionFailed", "the object has been replaced meanwhile"},
        {"RequestTimeTooSkewed", "the clock of this machine is wrong"},
        {"EntityTooLarge", "the server does not take an object this large"},
    };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strcmp(hints[i].error, error) == 0)
            return hints[i].hint;
    return code == 403   ? CLT_S3_NO_RIGHT
           : code == 404 ? "there is no such object"
           : code == 412 ? "the object has been replaced meanwhile"
                         : "";
}
