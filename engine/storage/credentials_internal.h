/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sources of keys (credentials_*.c) share. */
#ifndef ENGINE_STORAGE_CREDENTIALS_INTERNAL_H
#define ENGINE_STORAGE_CREDENTIALS_INTERNAL_H

#include <pthread.h>

#include "engine/storage/credentials.h"

/* The state of one search for keys, which all sources share. */
typedef struct clt_key_seeker {
    const clt_profile *profile;
    const char *name; /* of the profile that is searched */
    bool is_source;   /* another profile has named it as its source: the environment does not count */
    int depth;        /* how many profiles have named a source */
    const char *region, *ca_file;
    double until; /* when the last attempt of a request for keys may begin (clt_now) */
    pthread_mutex_t
        lock; /* of what follows, which another thread may cancel; the rest is the seeking thread's */
    bool cancelled;
    clt_http *http; /* NULL until the first source needs it: clt_key_http */
} clt_key_seeker;

typedef struct clt_key_source {
    const char *name;
    const char *text; /* for people; %s: the profile */
    /* Whether the source is set up here. Asks nobody. */
    bool (*is_set)(const clt_key_seeker *seeker);
    /* *there becomes false if the source turns out to have no keys. CLT_ESTORAGE: the source should have
     * keys, but does not give them. */
    clt_status (*fetch)(clt_key_seeker *seeker, clt_keys *out, bool *there);
} clt_key_source;

extern const clt_key_source clt_keys_env, clt_keys_role, clt_keys_web, clt_keys_sso, clt_keys_shared,
    clt_keys_process, clt_keys_config, clt_keys_container, clt_keys_instance;

/* Asks the metadata service which role the instance has; "": none. */
clt_status clt_key_role(clt_key_seeker *seeker, char *name, size_t size);

clt_status clt_key_http(clt_key_seeker *seeker);
/* The value of an environment variable; NULL: it is not set, or empty. */
const char *clt_key_variable(const char *name);
#define CLT_KEY_ANSWER 65536 /* bytes of an answer */
/* Makes a request for keys; answer->code 0: no whole answer came. */
typedef clt_status (*clt_key_request)(void *context, clt_http_answer *answer);
/* Repeats the request, with waits in between, until an answer comes that is not a temporary failure, or
 * until the time seeker->until. */
clt_status clt_key_repeat(clt_key_seeker *seeker, clt_key_request make, void *context,
                          clt_http_answer *answer);
/* The same with a request by seeker->http. CLT_ESTORAGE: no answer came. `name`: the service's name for
 * messages. */
clt_status clt_key_ask(clt_key_seeker *seeker, const clt_http_request *request, const char *name,
                       clt_http_answer *answer);
/* The content of a file without line breaks at its end; to be overwritten and freed. */
clt_status clt_key_read_token(const char *path, char **out);
/* Takes a key, secret or token. CLT_ESTORAGE: it is empty, too long, or has characters that no key has.
 * `name`: the name of the value for the message. */
clt_status clt_key_take(const char *text, const char *name, char *buffer, size_t size);
/* The two forms of JSON differ in the name of the token, and a program says its version. */
typedef enum clt_keys_form { CLT_KEYS_OF_SERVICE, CLT_KEYS_OF_PROGRAM } clt_keys_form;
/* The keys in the JSON text of a service or program, which `name` calls in messages. */
clt_status clt_keys_from_json(const char *text, size_t size, const char *name, clt_keys_form form,
                              clt_keys *out);

#endif
