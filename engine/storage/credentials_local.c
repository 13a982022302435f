/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys from the environment and from the files of AWS's tools. */
#include <stdlib.h>
#include <string.h>

#include "engine/storage/credentials_internal.h"

const char *clt_key_variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static bool has_env(const clt_key_seeker *seeker)
{
    (void)seeker;
    return clt_key_variable("AWS_ACCESS_KEY_ID") != NULL;
}

static clt_status fetch_env(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    const char *secret = clt_key_variable("AWS_SECRET_ACCESS_KEY"),
               *token = clt_key_variable("AWS_SESSION_TOKEN");
    (void)seeker, (void)there;
    CLT_TRY(clt_key_take(clt_key_variable("AWS_ACCESS_KEY_ID"), "AWS_ACCESS_KEY_ID", out->access,
                         sizeof out->access));
    CLT_TRY(clt_key_take(secret ? secret : "", "AWS_SECRET_ACCESS_KEY", out->secret, sizeof out->secret));
    if (token)
        CLT_TRY(clt_key_take(token, "AWS_SESSION_TOKEN", out->token, sizeof out->token));
    return CLT_OK;
}
const clt_key_source clt_keys_env = {"env", "the environment (AWS_ACCESS_KEY_ID)", has_env, fetch_env};

static bool in_file(const clt_key_seeker *seeker, clt_profile_file file)
{
    return clt_profile_get(seeker->profile, seeker->name, file, "aws_access_key_id") != NULL;
}

static clt_status fetch_file(const clt_key_seeker *seeker, clt_profile_file file, clt_keys *out)
{
    static const char *const keys[] = {"aws_access_key_id", "aws_secret_access_key", "aws_session_token"};
    const char *value[3];
    for (int i = 0; i < 3; i++)
        value[i] = clt_profile_get(seeker->profile, seeker->name, file, keys[i]);
    CLT_TRY(clt_key_take(value[0], "aws_access_key_id of the profile", out->access, sizeof out->access));
    CLT_TRY(clt_key_take(value[1] ? value[1] : "", "aws_secret_access_key of the profile", out->secret,
                         sizeof out->secret));
    if (value[2])
        CLT_TRY(clt_key_take(value[2], "aws_session_token of the profile", out->token, sizeof out->token));
    return CLT_OK;
}

static bool has_shared(const clt_key_seeker *seeker)
{
    return in_file(seeker, CLT_PROFILE_CREDENTIALS) ||
           clt_profile_find(seeker->profile, seeker->name, "role_arn");
}

/* A profile with a role is refused, since its other keys are not meant for requests. */
static clt_status fetch_shared(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    (void)there;
    if (clt_profile_find(seeker->profile, seeker->name, "role_arn"))
        CLT_FAIL(CLT_ESTORAGE,
                 "the profile '%s' has a role_arn, and cltrain does not assume roles of profiles: "
                 "'aws configure export-credentials --format env' gives the keys of the role",
                 seeker->name);
    return fetch_file(seeker, CLT_PROFILE_CREDENTIALS, out);
}
const clt_key_source clt_keys_shared = {"shared", "the profile '%s' in the file of keys (~/.aws/credentials)",
                                        has_shared, fetch_shared};

static bool has_config(const clt_key_seeker *seeker)
{
    return in_file(seeker, CLT_PROFILE_CONFIG);
}

static clt_status fetch_config(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    (void)there;
    return fetch_file(seeker, CLT_PROFILE_CONFIG, out);
}
const clt_key_source clt_keys_config = {"config", "the profile '%s' in the file of settings (~/.aws/config)",
                                        has_config, fetch_config};
