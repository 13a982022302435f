/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys from the environment and from the files of AWS's tools. */
#include <stdlib.h>
#include <string.h>

#include "engine/storage/credentials_internal.h"

static clt_status fetch_env(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    const char *access = getenv("AWS_ACCESS_KEY_ID"), *secret = getenv("AWS_SECRET_ACCESS_KEY"),
               *token = getenv("AWS_SESSION_TOKEN");
    (void)seeker;
    if (!access || !access[0])
        return CLT_OK;
    *there = true;
    CLT_TRY(clt_key_take(access, "AWS_ACCESS_KEY_ID", out->access, sizeof out->access));
    CLT_TRY(clt_key_take(secret ? secret : "", "AWS_SECRET_ACCESS_KEY", out->secret, sizeof out->secret));
    if (token && token[0])
        CLT_TRY(clt_key_take(token, "AWS_SESSION_TOKEN", out->token, sizeof out->token));
    return CLT_OK;
}
const clt_key_source clt_keys_env = {"env", fetch_env};

static clt_status fetch_file(const clt_profile *profile, clt_profile_file file, clt_keys *out, bool *there)
{
    const char *access = clt_profile_get(profile, file, "aws_access_key_id"),
               *secret = clt_profile_get(profile, file, "aws_secret_access_key"),
               *token = clt_profile_get(profile, file, "aws_session_token");
    if (!access)
        return CLT_OK;
    *there = true;
    CLT_TRY(clt_key_take(access, "aws_access_key_id of the profile", out->access, sizeof out->access));
    CLT_TRY(clt_key_take(secret ? secret : "", "aws_secret_access_key of the profile", out->secret,
                         sizeof out->secret));
    if (token)
        CLT_TRY(clt_key_take(token, "aws_session_token of the profile", out->token, sizeof out->token));
    return CLT_OK;
}

/* A profile with a role is refused, since its other keys are not meant for requests. */
static clt_status fetch_shared(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    const clt_profile *profile = seeker->profile;
    for (int i = 0; i < CLT_PROFILE_FILES; i++)
        if (clt_profile_get(profile, (clt_profile_file)i, "role_arn"))
            CLT_FAIL(CLT_ESTORAGE,
                     "the profile '%s' has a role_arn, and cltrain does not assume roles of profiles: "
                     "'aws configure export-credentials --format env' gives the keys of the role",
                     clt_profile_name(profile));
    return fetch_file(profile, CLT_PROFILE_CREDENTIALS, out, there);
}
const clt_key_source clt_keys_shared = {"shared", fetch_shared};

static clt_status fetch_config(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    return fetch_file(seeker->profile, CLT_PROFILE_CONFIG, out, there);
}
const clt_key_source clt_keys_config = {"config", fetch_config};
