/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys with which requests are signed. The sources are tried in botocore's order:
 *
 *     env        AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *     role       role_arn of the profile, exchanged at STS for the keys of source_profile or
 *                credential_source
 *     web        AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or the profile's settings, exchanged at STS
 *                (Kubernetes)
 *     sso        single sign-on of the profile, which is refused
 *     shared     ~/.aws/credentials
 *     process    credential_process of the profile: a program that prints keys
 *     config     ~/.aws/config
 *     container  AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI (ECS, EKS)
 *     instance   the role of the instance, from the metadata service, only on a machine of AWS
 *
 * Keys are fetched again before they expire. No message holds a key or a token. A process that uses keys
 * leaves no core dump: its soft limit of RLIMIT_CORE becomes 0. */
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

/* profile: borrowed, must live as long as the result. ca_file: as in clt_http_request. Sends nothing yet. */
clt_status clt_credentials_open(const clt_profile *profile, const char *region, const char *ca_file,
                                clt_credentials **out);
void clt_credentials_close(clt_credentials *credentials); /* NULL is fine */
CLT_SCOPED_POINTER(clt_credentials, clt_credentials_close)
/* Gives keys that are valid now; may be called from any thread. CLT_ESTORAGE: there are none, or the source
 * fails; the message says which sources were tried. */
clt_status clt_credentials_get(clt_credentials *credentials, clt_keys *out);
/* Gives the keys that would be used at the time `now`, in seconds since 1970. */
clt_status clt_credentials_get_at(clt_credentials *credentials, double now, clt_keys *out);
/* Call this when a server has refused the keys as expired: clt_credentials_get then fetches new ones. */
void clt_credentials_expired(clt_credentials *credentials);
/* Cancels the request for keys in progress and makes later ones fail immediately, with CLT_EINTERRUPTED or
 * CLT_ESTORAGE. Keys that were fetched before are still given. May be called from any thread. */
void clt_credentials_cancel(clt_credentials *credentials);
/* The source that would give keys, as a text for people ("the environment (AWS_ACCESS_KEY_ID)"); "": no
 * source. Sends no requests, with one exception: if no other source is set up on a machine of AWS, it
 * requests the role's name from the metadata service. Without a role the service gives no keys. */
void clt_credentials_describe(clt_credentials *credentials, char *out, size_t size);
/* The name of the source that gave the keys; "": none yet. */
const char *clt_credentials_source(clt_credentials *credentials);

#endif
