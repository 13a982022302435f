/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys by which requests are signed. They are looked for in the order in which botocore looks:
 *
 *     env        AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *     role       role_arn of the profile, exchanged at STS for the keys of source_profile or
 *                credential_source
 *     web        AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or the same of the profile, exchanged at STS
 *                (Kubernetes)
 *     sso        single sign-on of the profile, which is refused
 *     shared     ~/.aws/credentials
 *     process    credential_process of the profile: a program that prints keys
 *     config     ~/.aws/config
 *     container  AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI (ECS, EKS)
 *     instance   the role of the instance, by the metadata service, only on a machine of AWS
 *
 * Keys that expire are fetched again ahead of that. No message holds a key or a token. A process that has
 * asked for keys leaves no core dump: its soft limit of RLIMIT_CORE becomes 0. */
#ifndef ENGINE_STORAGE_CREDENTIALS_H
#define ENGINE_STORAGE_CREDENTIALS_H

#include "engine/base/mem.h"
#include "engine/cloud/http.h"
#include "engine/storage/aws_profile.h"

typedef struct clt_keys {
    char access[256], secret[256];
    char token[16384]; /* "": there is none */
    int64_t expires;   /* seconds since 1970; 0: never */
} clt_keys;

typedef struct clt_credentials clt_credentials;

/* profile: borrowed, and as long-lived as the result. ca_file: as in clt_http_request. Asks nobody yet. */
clt_status clt_credentials_open(const clt_profile *profile, const char *region, const char *ca_file,
                                clt_credentials **out);
void clt_credentials_close(clt_credentials *credentials); /* NULL is fine */
CLT_SCOPED_POINTER(clt_credentials, clt_credentials_close)
/* The keys as they are now; from any thread. CLT_ESTORAGE: there are none, or the source does not give them;
 * the message says which sources were looked at. */
clt_status clt_credentials_get(clt_credentials *credentials, clt_keys *out);
/* The same at another time, in seconds since 1970: which keys would serve then. */
clt_status clt_credentials_get_at(clt_credentials *credentials, double now, clt_keys *out);
/* Notes that a server has refused the keys as expired: the next call fetches them again. */
void clt_credentials_expired(clt_credentials *credentials);
/* From any thread: ends the request for keys in progress, and each later one immediately, with
 * CLT_EINTERRUPTED or CLT_ESTORAGE. Keys that are there already are given as before. */
void clt_credentials_cancel(clt_credentials *credentials);
/* The source that would give keys, as a text for people ("the environment (AWS_ACCESS_KEY_ID)"); "": no
 * source. It sends no requests, with one exception: if no other source is set up on a machine of AWS, it
 * asks the metadata service for the name of the role. A service that does not name a role has no keys. */
void clt_credentials_describe(clt_credentials *credentials, char *out, size_t size);
/* The name of the source that gave the keys; "": none yet. */
const char *clt_credentials_source(clt_credentials *credentials);

#endif
