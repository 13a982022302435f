/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the files in which the tools of AWS keep keys and settings: ~/.aws/credentials and ~/.aws/config, or
 * the files that AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name. AWS_PROFILE names the profile, else
 * it is "default"; a profile may refer to others. */
#ifndef ENGINE_STORAGE_AWS_PROFILE_H
#define ENGINE_STORAGE_AWS_PROFILE_H

#include "engine/base/mem.h"

typedef struct clt_profile clt_profile;
typedef enum clt_profile_file {
    CLT_PROFILE_CREDENTIALS,
    CLT_PROFILE_CONFIG,
    CLT_PROFILE_FILES
} clt_profile_file;

/* Reads both files. A file that does not exist counts as empty. CLT_EUSAGE: AWS_PROFILE names a profile that
 * neither file has. CLT_ESTORAGE: a file cannot be read. */
clt_status clt_profile_open(clt_profile **out);
void clt_profile_close(clt_profile *profile); /* NULL is fine; overwrites the memory first */
CLT_SCOPED_POINTER(clt_profile, clt_profile_close)
const char *clt_profile_name(const clt_profile *profile); /* "default" */
bool clt_profile_exists(const clt_profile *profile, const char *name);
/* A setting of the profile `name`; NULL if the file does not have it. Borrowed. */
const char *clt_profile_get(const clt_profile *profile, const char *name, clt_profile_file file,
                            const char *key);
/* Searches both files; the file of keys takes precedence. */
const char *clt_profile_find(const clt_profile *profile, const char *name, const char *key);

#endif
