/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sources of keys (credentials_*.c) share. */
#ifndef ENGINE_STORAGE_CREDENTIALS_INTERNAL_H
#define ENGINE_STORAGE_CREDENTIALS_INTERNAL_H

#include <pthread.h>

#include "engine/storage/credentials.h"

/* What a source may use. */
typedef struct clt_key_seeker {
    const clt_profile *profile;
    const char *name; /* of the profile that is looked at */
    const char *region, *ca_file;
    pthread_mutex_t lock; /* of what follows */
    bool cancelled;
    clt_http *http; /* NULL until the first source needs it: clt_key_http */
} clt_key_seeker;

typedef struct clt_key_source {
    const char *name;
    const char *text; /* for people; %s: the profile */
    /* Whether the source is set up here. Asks nobody. */
    bool (*is_set)(const clt_key_seeker *seeker);
    /* *there: false if the source turns out to have none. CLT_ESTORAGE: it does not give the keys that it
     * should have. */
    clt_status (*fetch)(clt_key_seeker *seeker, clt_keys *out, bool *there);
} clt_key_source;

extern const clt_key_source clt_keys_env, clt_keys_web, clt_keys_shared, clt_keys_config, clt_keys_container,
    clt_keys_instance;

/* Asks the metadata service which role the instance has; "": none. */
clt_status clt_key_role(clt_key_seeker *seeker, char *name, size_t size);

clt_status clt_key_http(clt_key_seeker *seeker);
/* The value of an environment variable; NULL: it is not set, or empty. */
const char *clt_key_variable(const char *name);
/* Takes a key, secret or token. CLT_ESTORAGE: it is empty, too long, or has characters that no key has.
 * `name`: what it is, for the message. */
clt_status clt_key_take(const char *text, const char *name, char *buffer, size_t size);
/* The keys in the JSON text of a service, which `name` calls in messages. */
clt_status clt_keys_from_json(const char *text, size_t size, const char *name, clt_keys *out);

#endif
