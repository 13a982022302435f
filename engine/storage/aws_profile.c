/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the settings of a profile from the files of the AWS tools. A line is "[section]" or "key = value"; a
 * line that begins with a blank continues a setting; such lines are skipped, because no setting of several
 * lines is needed here. */
#include "engine/storage/aws_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/files/fileio.h"

#define FILE_LIMIT 1000000 /* bytes */

struct clt_profile {
    const char *name;
    char *text[CLT_PROFILE_FILES]; /* each line ends with a NUL */
    size_t size[CLT_PROFILE_FILES];
};

/* Overwrites keys before their memory is freed. */
static void wipe(char *text, size_t size)
{
    for (volatile char *c = text; size; size--)
        *c++ = '\0';
}

void clt_profile_close(clt_profile *profile)
{
    if (!profile)
        return;
    for (int i = 0; i < CLT_PROFILE_FILES; i++) {
        if (profile->text[i])
            wipe(profile->text[i], profile->size[i]);
        free(profile->text[i]);
    }
    free(profile);
}

static clt_status read_one(clt_profile *profile, clt_profile_file file)
{
    static const char *const variables[] = {"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"};
    static const char *const names[] = {"~/.aws/credentials", "~/.aws/config"};
    CLT_SCOPED(clt_str) path = {0};
    const char *given = getenv(variables[file]), *home = getenv("HOME");
    given = given && given[0] ? given : names[file];
    if (strncmp(given, "~/", 2) == 0)
        clt_str_printf(&path, "%s%s", home ? home : "", given + 1);
    else
        clt_str_append(&path, given);
    CLT_TRY(clt_str_check(&path));
    if (!clt_file_exists(path.text))
        return CLT_OK;
    CLT_TRY(clt_file_read(path.text, false, FILE_LIMIT, CLT_ESTORAGE, &profile->text[file],
                          &profile->size[file]));
    for (size_t i = 0; i < profile->size[file]; i++)
        if (profile->text[file][i] == '\n' || profile->text[file][i] == '\r')
            profile->text[file][i] = '\0';
    return CLT_OK;
}

/* True if a line begins the profile's section: "[name]", or in the config file "[profile name]". */
static bool is_section(const char *name, clt_profile_file file, const char *line)
{
    const char *at = line + 1 + strspn(line + 1, " \t");
    bool plain = file == CLT_PROFILE_CREDENTIALS || strcmp(name, "default") == 0;
    if (file == CLT_PROFILE_CONFIG && strncmp(at, "profile", 7) == 0 && (at[7] == ' ' || at[7] == '\t'))
        at += 7 + strspn(at + 7, " \t");
    else if (!plain)
        return false;
    size_t length = strlen(name);
    bool quoted = *at == '"';
    at += quoted;
    if (strncmp(at, name, length) != 0)
        return false;
    at += length;
    if (quoted && *at++ != '"')
        return false;
    return at[strspn(at, " \t")] == ']';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The value of a line "key = value", after cutting blanks from the line's end; NULL: the line has another
 * key. */
static const char *value_of(char *line, const char *key)
{
    size_t length = strlen(key);
    if (strncasecmp(line, key, length) != 0)
        return NULL;
    char *at = line + length + strspn(line + length, " \t");
    if (*at != '=' && *at != ':')
        return NULL;
    at += 1 + strspn(at + 1, " \t");
    for (char *end = at + strlen(at); end > at && is_blank(end[-1]);)
        *--end = '\0';
    return at;
}

/* Searches the section of the profile `name` for a key. *found becomes true if the file has the section. key
 * NULL: searches only for the section. */
static const char *look_up(const clt_profile *profile, const char *name, clt_profile_file file,
                           const char *key, bool *found)
{
    char *text = profile->text[file], *end = text ? text + profile->size[file] : NULL;
    bool inside = false;
    for (char *line = text; line < end; line += strlen(line) + 1) {
        if (line[0] == '[') {
            inside = is_section(name, file, line);
            *found = *found || inside;
            continue;
        }
        const char *value = inside && key ? value_of(line, key) : NULL;
        if (value)
            return value;
    }
    return NULL;
}

const char *clt_profile_get(const clt_profile *profile, const char *name, clt_profile_file file,
                            const char *key)
{
    bool found = false;
    const char *value = look_up(profile, name, file, key, &found);
    return value && value[0] ? value : NULL;
}

const char *clt_profile_find(const clt_profile *profile, const char *name, const char *key)
{
    const char *value = NULL;
    for (int i = 0; i < CLT_PROFILE_FILES && !value; i++)
        value = clt_profile_get(profile, name, (clt_profile_file)i, key);
    return value;
}

const char *clt_profile_name(const clt_profile *profile)
{
    return profile->name;
}

bool clt_profile_exists(const clt_profile *profile, const char *name)
{
    bool found = false;
    for (int i = 0; i < CLT_PROFILE_FILES && !found; i++)
        (void)look_up(profile, name, (clt_profile_file)i, NULL, &found);
    return found;
}

clt_status clt_profile_open(clt_profile **out)
{
    CLT_SCOPED(clt_profile) *profile = NULL;
    const char *name = getenv("AWS_PROFILE");
    bool named = name && name[0];
    *out = NULL;
    CLT_TRY(clt_alloc(&profile, 1, sizeof *profile, "a profile of AWS"));
    profile->name = named ? name : "default";
    for (int i = 0; i < CLT_PROFILE_FILES; i++)
        CLT_TRY(read_one(profile, (clt_profile_file)i));
    if (named && !clt_profile_exists(profile, name))
        CLT_FAIL(CLT_EUSAGE, "AWS_PROFILE=%s: neither ~/.aws/credentials nor ~/.aws/config has this profile",
                 name);
    *out = CLT_TAKE(profile);
    return CLT_OK;
}
