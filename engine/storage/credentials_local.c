/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys from the environment, from the files of AWS's tools, and from a program that such a file names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/thread.h"
#include "engine/host/child.h"
#include "engine/host/find_program.h"
#include "engine/storage/credentials_internal.h"
#include "engine/storage/secret.h"

#define PROGRAM_SECONDS 60.0 /* seconds that a program may take */
#define NAP_SECONDS 0.01
#define MOST_WORDS 64

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
    return in_file(seeker, CLT_PROFILE_CREDENTIALS);
}

static clt_status fetch_shared(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    (void)there;
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

static const char *setting(const clt_key_seeker *seeker, const char *key)
{
    return clt_profile_find(seeker->profile, seeker->name, key);
}

static bool has_sso(const clt_key_seeker *seeker)
{
    return setting(seeker, "sso_account_id") || setting(seeker, "sso_role_name") ||
           setting(seeker, "login_session");
}

static clt_status fetch_sso(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    (void)out, (void)there;
    CLT_FAIL(CLT_ESTORAGE,
             "the profile '%s' uses single sign-on, which cltrain cannot use: a profile with "
             "'credential_process = aws configure export-credentials --profile %s' gets its keys for cltrain",
             seeker->name, seeker->name);
}
const clt_key_source clt_keys_sso = {"sso", "single sign-on of the profile '%s', which cltrain cannot use",
                                     has_sso, fetch_sso};

/* --- a program that prints keys --- */

/* Cuts a command into words as Python's shlex does, in place: blanks separate words; '...' keeps all
 * characters, "..." keeps all except \" and \\, and outside of quotes \x is x. False: a quote has no end, or
 * there are too many words. */
static bool cut_words(char *text, const char *words[MOST_WORDS + 1])
{
    static const char blanks[] = " \t";
    char *out = text, *c = text;
    int n = 0;
    for (c += strspn(c, blanks); *c; c += strspn(c, blanks)) {
        char quote = '\0';
        if (n == MOST_WORDS)
            return false;
        words[n++] = out;
        for (; *c && (quote || !strchr(blanks, *c)); c++) {
            if (*c == quote && quote)
                quote = '\0';
            else if (!quote && (*c == '"' || *c == '\''))
                quote = *c;
            else if (*c == '\\' && (!quote || (quote == '"' && (c[1] == '"' || c[1] == '\\'))) && c[1])
                *out++ = *++c;
            else
                *out++ = *c;
        }
        if (quote)
            return false;
        c += *c != '\0';
        *out++ = '\0';
    }
    words[n] = NULL;
    return n > 0;
}

static bool is_cancelled(clt_key_seeker *seeker)
{
    CLT_LOCKED(&seeker->lock);
    return seeker->cancelled;
}

/* Waits until the program ends; false: it was killed, because it took too long or the request was
 * cancelled. */
static bool wait_for_program(clt_key_seeker *seeker, clt_child *child)
{
    const struct timespec nap = {.tv_nsec = (long)(NAP_SECONDS * 1e9)};
    const double begin = clt_now();
    while (!clt_child_is_over(child)) {
        if (clt_now() - begin > PROGRAM_SECONDS || is_cancelled(seeker)) {
            clt_child_kill(child);
            return false;
        }
        nanosleep(&nap, NULL);
    }
    return true;
}

static clt_status run_program(clt_key_seeker *seeker, const char *const *words, const char *name, int output)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_child) *child = NULL;
    clt_child_end end;
    if (clt_program_named(words[0], &path) != CLT_OK)
        CLT_FAIL(CLT_ESTORAGE, "%s: no program '%s' can be run", name, words[0]);
    const clt_child_program program = {.path = path,
                                       .arguments = words + 1,
                                       .flags = CLT_CHILD_FOREIGN | CLT_CHILD_ANSWER,
                                       .output = output};
    CLT_TRY(clt_child_start_program(&program, &child));
    bool over = wait_for_program(seeker, child);
    clt_child_stop(CLT_TAKE(child), &end);
    if (is_cancelled(seeker))
        CLT_FAIL(CLT_EINTERRUPTED, "requests for keys have been cancelled");
    if (!over)
        CLT_FAIL(CLT_ESTORAGE, "%s: the program took more than %g s, and was ended", name, PROGRAM_SECONDS);
    if (end.code != 0 || end.signal)
        CLT_FAIL(CLT_ESTORAGE, "%s: the program ended with %s%s%s", name, end.text,
                 end.last_line[0] ? ": " : "", end.last_line);
    return CLT_OK;
}

/* Reads the program's output, which is kept in memory only. */
static clt_status read_printed(int output, const char *name, char *text, size_t size, size_t *length)
{
    ssize_t n = pread(output, text, size, 0);
    if (n < 0 || (size_t)n == size)
        CLT_FAIL(CLT_ESTORAGE, "%s: the program printed more than %d bytes", name, CLT_KEY_ANSWER);
    text[n] = '\0';
    *length = (size_t)n;
    return CLT_OK;
}

static bool has_process(const clt_key_seeker *seeker)
{
    return setting(seeker, "credential_process") != NULL;
}

static clt_status fetch_process(clt_key_seeker *seeker, clt_keys *out, bool *there)
{
    CLT_CLOSED int output = memfd_create("cltrain keys", MFD_CLOEXEC);
    CLT_SCOPED(clt_secret) command = {0}, printed = {0};
    CLT_SCOPED(clt_str) name = {0};
    const char *words[MOST_WORDS + 1], *given = setting(seeker, "credential_process");
    size_t length;
    (void)there;
    clt_secret_room(&command, strlen(given));
    clt_secret_room(&printed, CLT_KEY_ANSWER);
    clt_str_append(&command, given);
    clt_str_printf(&name, "credential_process of the profile '%s'", seeker->name);
    CLT_TRY(clt_str_check(&command));
    CLT_TRY(clt_str_check(&printed));
    CLT_TRY(clt_str_check(&name));
    if (output < 0)
        CLT_FAIL(CLT_ENOMEM, "%s: no memory for what it prints", name.text);
    if (!cut_words(command.text, words))
        CLT_FAIL(CLT_ESTORAGE, "%s: a quote has no end, or it has more than %d words", name.text, MOST_WORDS);
    CLT_TRY(run_program(seeker, words, name.text, output));
    CLT_TRY(read_printed(output, name.text, printed.text, CLT_KEY_ANSWER, &length));
    return clt_keys_from_json(printed.text, length, name.text, CLT_KEYS_OF_PROGRAM, out);
}
const clt_key_source clt_keys_process = {"process", "the program of credential_process of the profile '%s'",
                                         has_process, fetch_process};
