/* SPDX-License-Identifier: Apache-2.0
 *
 * object_storage BUCKET COMMAND ARGUMENT...: single calls of the client of object storage, for scripts that
 * test it against servers. The environment names the server and the keys.
 *
 *     put KEY FILE        from memory, in one request        head KEY          size and ETag, or "absent"
 *     upload KEY FILE     in parts if it is large            list PREFIX       keys and sizes
 *     download KEY FILE   in ranges                          delete KEY
 *     range KEY FROM SIZE FILE                               abort PREFIX      uploads that were never
 *     finished read KEY            prints a small object              source            where the keys come
 *     from both COMMAND KEY    runs head or read twice at the same time
 *     pipe METHOD URL     a request during which the thread gets SIGPIPE, as from a closed connection
 *     repeat KEY COUNT    head, COUNT times, at least 50 ms apart; then as source */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/cloud/http.h"
#include "engine/files/fileio.h"
#include "engine/storage/s3.h"

#define LANES 4

static clt_status put(clt_s3 *s3, char **argv)
{
    CLT_FREED char *data = NULL;
    size_t size = 0;
    CLT_TRY(clt_file_read(argv[1], false, 0, CLT_EDATA, &data, &size));
    return clt_s3_put(s3, argv[0], data, size);
}

static clt_status upload(clt_s3 *s3, char **argv)
{
    return clt_s3_upload(s3, argv[1], argv[0], LANES, NULL);
}

static clt_status download(clt_s3 *s3, char **argv)
{
    clt_s3_object object;
    CLT_TRY(clt_s3_head(s3, argv[0], &object, NULL));
    return clt_s3_download(s3, &object, argv[1], LANES);
}

static clt_status range(clt_s3 *s3, char **argv)
{
    CLT_FREED char *data = NULL;
    size_t size = strtoul(argv[2], NULL, 10);
    CLT_TRY(clt_alloc(&data, size, 1, "a range"));
    CLT_TRY(clt_s3_get(s3, argv[0], NULL, strtoull(argv[1], NULL, 10), data, size));
    return clt_file_write(argv[3], data, size);
}

static clt_status head(clt_s3 *s3, char **argv)
{
    clt_s3_object object;
    bool there = false;
    CLT_TRY(clt_s3_head(s3, argv[0], &object, &there));
    if (there)
        printf("%" PRIu64 " %s\n", object.size, object.etag);
    else
        puts("absent");
    return CLT_OK;
}

static clt_status list(clt_s3 *s3, char **argv)
{
    CLT_SCOPED(clt_s3_list) all = {.count = 0};
    CLT_TRY(clt_s3_list_all(s3, argv[0], &all));
    for (size_t i = 0; i < all.count; i++)
        printf("%s %" PRIu64 "\n", all.object[i].key, all.object[i].size);
    return CLT_OK;
}

static clt_status read_one(clt_s3 *s3, char **argv)
{
    CLT_FREED char *data = NULL;
    size_t size;
    CLT_TRY(clt_s3_read(s3, argv[0], 1000000, &data, &size, NULL));
    fwrite(data, 1, size, stdout);
    return CLT_OK;
}

static clt_status delete_one(clt_s3 *s3, char **argv)
{
    return clt_s3_delete(s3, argv[0], NULL);
}

static clt_status abort_old(clt_s3 *s3, char **argv)
{
    int count = 0;
    CLT_TRY(clt_s3_abort_old(s3, argv[0], 0, NULL, NULL, &count));
    printf("%d\n", count);
    return CLT_OK;
}

static clt_status source(clt_s3 *s3, char **argv)
{
    clt_s3_object object;
    bool there;
    (void)argv;
    CLT_TRY(clt_s3_head(s3, "source", &object, &there));
    puts(clt_s3_key_source(s3));
    return CLT_OK;
}

static bool break_pipe(void *context, const void *bytes, size_t size)
{
    (void)context, (void)bytes, (void)size;
    return pthread_kill(pthread_self(), SIGPIPE) == 0;
}

static clt_status broken_pipe(clt_s3 *s3, char **argv)
{
    CLT_SCOPED(clt_http) *http = NULL;
    clt_http_answer answer;
    const clt_http_request request = {.method = argv[0], .url = argv[1], .seconds = 60, .sink = break_pipe};
    (void)s3;
    CLT_TRY(clt_http_open(&http));
    CLT_TRY(clt_http_ask(http, &request, &answer));
    printf("%d\n", answer.code);
    return CLT_OK;
}

static clt_status repeat(clt_s3 *s3, char **argv)
{
    clt_s3_object object;
    for (long i = strtol(argv[1], NULL, 10); i > 0; i--) {
        struct timespec nap = {.tv_nsec = 50000000};
        CLT_TRY(clt_s3_head(s3, argv[0], &object, NULL));
        nanosleep(&nap, NULL);
    }
    puts(clt_s3_key_source(s3));
    return CLT_OK;
}

/* A call that runs in its own thread. */
typedef struct companion {
    clt_s3 *s3;
    char **argv;
    clt_error error;
} companion;

static clt_status run_one(clt_s3 *s3, char **argv)
{
    return strcmp(argv[0], "head") == 0 ? head(s3, argv + 1) : read_one(s3, argv + 1);
}

static void *accompany(void *context)
{
    companion *c = context;
    clt_error_take(run_one(c->s3, c->argv), &c->error);
    return NULL;
}

static clt_status both(clt_s3 *s3, char **argv)
{
    companion other = {.s3 = s3, .argv = argv};
    clt_thread *thread = NULL;
    CLT_TRY(clt_thread_start(&thread, "the other call", accompany, &other));
    clt_status status = run_one(s3, argv);
    clt_thread_join(thread);
    return status != CLT_OK ? status : clt_error_put(&other.error);
}

static const struct {
    const char *name;
    int arguments;
    clt_status (*run)(clt_s3 *s3, char **argv);
} commands[] = {{"put", 2, put},         {"upload", 2, upload},     {"download", 2, download},
                {"range", 4, range},     {"head", 1, head},         {"list", 1, list},
                {"read", 1, read_one},   {"delete", 1, delete_one}, {"abort", 1, abort_old},
                {"source", 0, source},   {"both", 2, both},         {"repeat", 2, repeat},
                {"pipe", 2, broken_pipe}};

static clt_status run(int argc, char **argv)
{
    CLT_SCOPED(clt_s3) *s3 = NULL;
    const clt_s3_options options = {.sse = getenv("STORAGE_SSE"), .kms_key = getenv("STORAGE_KMS_KEY")};
    CLT_TRY(clt_s3_open(argv[1], &options, &s3));
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, argv[2]) == 0 && argc == 3 + commands[i].arguments)
            return commands[i].run(s3, argv + 3);
    CLT_FAIL(CLT_EUSAGE, "no command '%s' with %d arguments", argv[2], argc - 3);
}

static void say(void *context, clt_log_level level, const char *line)
{
    (void)context, (void)level;
    fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    clt_log_set_sink(say, NULL, CLT_LOG_TRACE);
    clt_status status = run(argc, argv);
    if (status != CLT_OK)
        fprintf(stderr, "error: %s\n", clt_error_text());
    return clt_status_exit_code(status);
}
