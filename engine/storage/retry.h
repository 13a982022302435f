/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a request is repeated, and after which wait, by AWS's "standard" rules for retries. Both
 * requests to storage and requests for keys follow them. */
#ifndef ENGINE_STORAGE_RETRY_H
#define ENGINE_STORAGE_RETRY_H

#include "engine/cloud/http.h"

/* What an answer means. */
typedef enum clt_s3_verdict {
    CLT_S3_DONE,
    CLT_S3_AGAIN,     /* it may succeed the next time */
    CLT_S3_SLOWER,    /* it may succeed later: the server asks for fewer requests */
    CLT_S3_NEW_CLOCK, /* the clocks differ: sign with the server's time */
    CLT_S3_NEW_PLACE, /* the bucket is in another region */
    CLT_S3_NEW_KEYS,  /* the keys have expired */
    CLT_S3_GIVE_UP
} clt_s3_verdict;
/* code: 0: no whole answer came. error: the server's error code, "" if there is none. result_missing: an
 * answer 200 lacks the required element. */
clt_s3_verdict clt_s3_judge(int code, const char *error, bool result_missing);
/* Seconds to wait before attempt `attempt` (1: the second one); chance: 0 to 1. */
double clt_s3_delay(int attempt, bool slower, double chance);
/* Seconds to wait that the newest answer asks for (x-amz-retry-after, Retry-After); 0: it asks for none. */
double clt_retry_asked(clt_http *http);
/* Seconds to wait after the attempt number `attempts` (1: the first one), whose answer had this code and
 * verdict, AGAIN or SLOWER, and asked for a wait of `asked` seconds. */
double clt_retry_wait(int attempts, clt_s3_verdict verdict, int code, double asked);
/* Sleeps; false: `cancelled` became true. */
bool clt_retry_sleep(double seconds, bool (*cancelled)(void *context), void *context);

#endif
