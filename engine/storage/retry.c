/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a failed request is repeated, and how long to wait before that. */
#include "engine/storage/retry.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/hash.h"
#include "engine/base/thread.h"

#define FIRST_SECONDS 0.05
#define FIRST_SECONDS_SLOWER 1.0
#define MOST_SECONDS 20.0
#define MOST_ASKED 60.0 /* in seconds; a longer wait that a server asks for is ignored */
#define NAP_SECONDS 0.1 /* a cancelled wait ends after this time at the latest */

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
    {"IDPCommunicationError", CLT_S3_AGAIN}, /* STS cannot reach the issuer of a pod's token */
    {"OperationAborted", CLT_S3_AGAIN},
    {"ConditionalRequestConflict", CLT_S3_AGAIN},
    {"XAmzContentSHA256Mismatch", CLT_S3_AGAIN}, /* the body was damaged on its way */
    {"BadDigest", CLT_S3_AGAIN},
    {"IncompleteBody", CLT_S3_AGAIN},
};

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

double clt_retry_asked(clt_http *http)
{
    const double milliseconds = strtod(clt_http_header(http, "x-amz-retry-after"), NULL);
    return milliseconds > 0 ? milliseconds * 1e-3 : strtod(clt_http_header(http, "Retry-After"), NULL);
}

/* A random number from 0 to 1, different for each call of each thread and process. */
static double chance(void)
{
    static atomic_uint calls;
    const struct {
        double now;
        const void *place;
        uint64_t call;
    } seed = {clt_now(), &seed, atomic_fetch_add(&calls, 1)};
    return (double)(clt_hash64(&seed, sizeof seed) >> 11) * 0x1p-53;
}

double clt_retry_wait(int attempts, clt_s3_verdict verdict, int code, double asked)
{
    if (asked > 0 && asked < MOST_ASKED)
        return asked;
    if (code == 0 && attempts > 1) /* the server is restarting, or the connection broke */
        return clt_s3_delay(attempts - 1, true, chance());
    return clt_s3_delay(attempts, verdict == CLT_S3_SLOWER, chance());
}

bool clt_retry_sleep(double seconds, bool (*cancelled)(void *context), void *context)
{
    for (double end = clt_now() + seconds, left = seconds; left > 0; left = end - clt_now()) {
        double nap = left < NAP_SECONDS ? left : NAP_SECONDS;
        struct timespec time = {.tv_sec = 0, .tv_nsec = (long)(nap * 1e9)};
        if (cancelled(context))
            return false;
        nanosleep(&time, NULL);
    }
    return !cancelled(context);
}
