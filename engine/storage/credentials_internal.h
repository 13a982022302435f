/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the sources of keys (credentials_*.c): the state of a search, the interface of a source,
 * requests. */
#ifndef ENGINE_STORAGE_CREDENTIALS_INTERNAL_H
#define ENGINE_STORAGE_CREDENTIALS_INTERNAL_H

#include <pthread.h>

#include "engine/storage/credentials.h"

/* The state of one search for keys, which all sources share. */
typedef struct clt_key_seeker {
    const clt_profile *profile;
    const char *name; /* name of the profile that is searched */
    bool is_source;   /* another profile names this one as its source, so the environment does not count */
    int depth;        /* number of source_profile links followed so far */
    const char *region, *ca_file;
    double until; /* when the last attempt of a request for keys may begin (clt_now) */
    pthread_mutex_t
        lock; /* guards the members that follow, which another thread may use to cancel; all others belong to
               * the searching thread */
    bool cancelled;
    clt_http *http; /* NULL until the first source needs it: clt_key_http */
} clt_key_seeker;

typedef struct clt_key_source {
    const char *name;
    const char *text; /* a description for people; %s: the profile */
    /* True if the source is set up here. Sends nothing. */
    bool (*is_set)(const clt_key_seeker *seeker);
    /* Fetches the keys. *there becomes false if the source turns out to have none. CLT_ESTORAGE: the source
     * should have keys, but getting them failed. */
    clt_status (*fetch)(clt_key_seeker *seeker, clt_keys *out, bool *there);
} clt_key_source;

extern const clt_key_source clt_keys_env, clt_keys_role, clt_keys_web, clt_keys_sso, clt_keys_shared,
    clt_keys_process, clt_keys_config, clt_keys_container, clt_keys_instance;

/* Requests the name of the instance's role from the metadata service; "": there is none. */
clt_status clt_key_role(clt_key_seeker *seeker, char *name, size_t size);

clt_status clt_key_http(clt_key_seeker *seeker);
/* The value of an environment variable; NULL: it is not set, or empty. */
const char *clt_key_variable(const char *name);
#define CLT_KEY_ANSWER 65536 /* most bytes of an answer */
/* Makes a request for keys; answer->code 0: no whole answer came. */
typedef clt_status (*clt_key_request)(void *context, clt_http_answer *answer);
/* Repeats the request, with waits in between, until an answer comes that is not a temporary failure, or
 * until the time seeker->until. */
clt_status clt_key_repeat(clt_key_seeker *seeker, clt_key_request make, void *context,
                          clt_http_answer *answer);
/* clt_key_repeat with a request through seeker->http. CLT_ESTORAGE: no answer came. `name`: the service's
 * name for messages. */
clt_status clt_key_ask(clt_key_seeker *seeker, const clt_http_request *request, const char *name,
                       clt_http_answer *answer);
/* Reads a file, without line breaks at its end. The caller overwrites and frees the text. */
clt_status clt_key_read_token(const char *path, char **out);
/* Copies a key, secret or token to `buffer`. CLT_ESTORAGE: it is empty, too long, or has characters that no
 * key has. `name`: the value's name for the message. */
clt_status clt_key_take(const char *text, const char *name, char *buffer, size_t size);
/* The JSON text of a service and that of a program name the token differently, and a program adds a
 * version. */
typedef enum clt_keys_form { CLT_KEYS_OF_SERVICE, CLT_KEYS_OF_PROGRAM } clt_keys_form;
/* Reads the keys from the JSON text of a service or program. `name`: its name for messages. */
clt_status clt_keys_from_json(const char *text, size_t size, const char *name, clt_keys_form form,
                              clt_keys *out);

#endif
