/* SPDX-License-Identifier: Apache-2.0
 *
 * The parent's side of builders: starting a child, sending it programs to build, and distinguishing a
 * compiler that failed from a child that died for another reason. The text that children read: a line
 * `program FAMILY OPTIONS`; for each launch a line `launch KERNEL DIMENSIONS GLOBAL*3 LOCAL*3`, a line `arg
 * KIND VALUE` for each argument and `run`; then `end`. Fields are separated by tabs. A large launch, with
 * OCL_SMALL_LAUNCH work-items or more in a dimension, runs in full size, and is sent only if it has a bound,
 * which is sent as 0; of other launches one group runs. Children answer questions (cl/probes/asking.h) until
 * a line `open`, to which they answer `ready KEY`; then, for each program, `built` or `failed`, and
 * `done`. */
#include "cl/program/builders.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/device/internal.h"
#include "cl/device/pocl.h"
#include "cl/program/program_internal.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/host/child.h"
#include "engine/host/find_program.h"

#define START_SECONDS 60.0
#define BUILD_SECONDS 900.0 /* seconds; Intel's compiler once needed 200 for one program */

struct ocl_builder {
    clt_child *child;
    const ocl_device *device;
    bool ready; /* the child has sent its greeting */
};

bool ocl_builders_help(const ocl_device *device)
{
    const char *own = getenv("POCL_KERNEL_CACHE");
    return (device->desc.quirks & OCL_QUIRK_SERIAL_BUILDS) && ocl_binary_cache_keeps(device) &&
           (own == NULL || strcmp(own, "0") != 0);
}

/* --- children that have answered device questions and wait --- */

static struct {
    pthread_mutex_t lock;
    struct {
        uint64_t key;
        clt_child *child;
    } list[OCL_BUILDERS_MAX];
    int count;
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};

void ocl_builders_adopt(uint64_t key, clt_child *child)
{
    pthread_mutex_lock(&waiting.lock);
    bool room = waiting.count < OCL_BUILDERS_MAX;
    if (room) {
        waiting.list[waiting.count].key = key;
        waiting.list[waiting.count++].child = child;
    }
    pthread_mutex_unlock(&waiting.lock);
    if (!room)
        clt_child_stop(child, NULL);
}

/* Takes a waiting child for the device `key` (NULL: for any device). Returns NULL if there is none. */
static clt_child *take_waiting(const uint64_t *key)
{
    clt_child *child = NULL;
    CLT_LOCKED(&waiting.lock);
    for (int i = 0; i < waiting.count && child == NULL; i++)
        if (key == NULL || waiting.list[i].key == *key) {
            child = waiting.list[i].child;
            waiting.list[i] = waiting.list[--waiting.count];
        }
    return child;
}

void ocl_builders_forget(void)
{
    for (clt_child *child; (child = take_waiting(NULL)) != NULL;)
        clt_child_stop(child, NULL);
}

/* --- starting --- */

/* Waits for the child's greeting. It contains the key of the child's device, which is compared because
 * device indices may differ between processes. */
static clt_status await_greeting(ocl_builder *builder)
{
    const ocl_device *device = builder->device;
    clt_child *child = builder->child;
    const char *line;
    uint64_t key;
    char text[CLT_HASH64_TEXT], want[64];
    CLT_TRY(ocl_capabilities_key(&device->desc, OCL_STYLE_ASKED, &key));
    snprintf(want, sizeof want, "ready %s", clt_hash64_text(key, text));
    if (clt_child_next(child, START_SECONDS, &line) != CLT_CHILD_LINE || strcmp(line, want) != 0)
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "a child process for building programs did not report that it is ready: %.200s", line);
    builder->ready = true;
    return CLT_OK;
}

/* Makes a child a builder, which then owns it. If that fails, the child is ended. */
static clt_status open_builder(clt_child *child, const ocl_device *device, ocl_builder **out)
{
    static const char open[] = "open\n";
    CLT_SCOPED(clt_child) *own = child;
    CLT_TRY(clt_alloc(out, 1, sizeof **out, "a builder"));
    **out = (ocl_builder){.child = CLT_TAKE(own), .device = device};
    if (clt_child_send(child, open, strlen(open), START_SECONDS) != CLT_OK)
        clt_error_clear(); /* the child has ended, as await_greeting will find */
    return CLT_OK;
}

/* Makes a builder of a waiting child, whose driver is already loaded. Returns NULL if there is none. Skips
 * children that have ended in the meantime. */
static ocl_builder *adopted_builder(const ocl_device *device)
{
    uint64_t key;
    clt_child *child;
    ocl_builder *builder = NULL;
    if (ocl_capabilities_key(&device->desc, OCL_STYLE_ASKED, &key) != CLT_OK)
        return NULL;
    while ((child = take_waiting(&key)) != NULL) {
        if (open_builder(child, device, &builder) != CLT_OK)
            return NULL;
        if (await_greeting(builder) == CLT_OK)
            return builder;
        CLT_DEBUG("%s", clt_error_text());
        clt_error_clear();
        ocl_builder_stop(builder);
    }
    return NULL;
}

clt_status ocl_device_child_start(const char *spec, clt_child **out)
{
    const char *arguments[] = {"probe", "--device", spec, NULL};
    CLT_FREED char *program = NULL;
    CLT_TRY(clt_program_find(&program));
    return clt_child_start(program, arguments, CLT_CHILD_INPUT, out);
}

clt_status ocl_builder_start(const ocl_device *device, ocl_builder **out)
{
    clt_child *child;
    *out = adopted_builder(device);
    clt_error_clear();
    if (*out != NULL)
        return CLT_OK;
    CLT_TRY(ocl_device_child_start(device->desc.spec, &child));
    return open_builder(child, device, out);
}

void ocl_builder_stop(ocl_builder *builder)
{
    if (builder == NULL)
        return;
    clt_child_stop(builder->child, NULL);
    free(builder);
}

/* --- sending a program and its launches --- */

static void write_argument(const ocl_program_request *request, const ocl_command *c, int index, bool large,
                           clt_str *out)
{
    const ocl_arg *arg = &c->args[index];
    bool idle = large && arg->bound;
    uint32_t bits;
    switch (arg->kind) {
    case OCL_ARG_TENSOR:
        if (arg->ref.tensor == OCL_NO_TENSOR_ID)
            clt_str_printf(out, "arg\tnothing\t0\n");
        else
            clt_str_printf(out, "arg\ttensor\t%" PRIu64 "\n",
                           request->extent(request->extent_context, c, index));
        break;
    case OCL_ARG_I32:
    case OCL_ARG_U32:
        clt_str_printf(out, "arg\t32\t%" PRIu32 "\n", idle ? 0 : arg->value.u32);
        break;
    case OCL_ARG_F32:
        memcpy(&bits, &arg->value.f32, sizeof bits);
        clt_str_printf(out, "arg\t32\t%" PRIu32 "\n", bits);
        break;
    case OCL_ARG_U64:
        clt_str_printf(out, "arg\t64\t%" PRIu64 "\n", idle ? 0 : arg->value.u64);
        break;
    case OCL_ARG_LOCAL:
        clt_str_printf(out, "arg\tlocal\t%" PRIu64 "\n", arg->value.u64);
        break;
    case OCL_ARG_TILE_COUNTER:
        clt_str_printf(out, "arg\ttile_counter\t0\n");
        break;
    }
}

/* Whether a launch is large. Drivers may run different code for large and small launches. */
static bool is_large(const ocl_command *c)
{
    for (unsigned i = 0; i < c->work_dim; i++)
        if (c->global[i] >= OCL_SMALL_LAUNCH)
            return true;
    return false;
}

static bool has_bound(const ocl_command *c)
{
    for (int a = 0; a < c->n_args; a++)
        if (c->args[a].bound)
            return true;
    return false;
}

static void write_job(const ocl_program_request *request, clt_str *out)
{
    clt_str_printf(out, "program\t%s\t%s\n", request->family, request->options);
    for (size_t i = 0; i < request->n_launches; i++) {
        const ocl_command *c = request->launches[i];
        bool large = is_large(c);
        if (large && !has_bound(c))
            continue;
        clt_str_printf(out, "launch\t%s\t%u\t%zu\t%zu\t%zu\t%zu\t%zu\t%zu\n", c->kernel, c->work_dim,
                       c->global[0], c->global[1], c->global[2], c->local[0], c->local[1], c->local[2]);
        for (int a = 0; a < c->n_args; a++)
            write_argument(request, c, a, large, out);
        clt_str_printf(out, "run\n");
    }
    clt_str_printf(out, "end\n");
}

/* --- building --- */

/* Decides what the end of a child means for the program that it was building. */
static clt_status judge(ocl_builder *builder, const ocl_program_request *request)
{
    const ocl_device_desc *desc = &builder->device->desc;
    char why[384];
    clt_child_end end;
    clt_child_stop(CLT_TAKE(builder->child), &end);
    bool silent = end.event == CLT_CHILD_SILENT,
         crashed = !silent && end.signal != 0 && end.signal != SIGKILL,
         own_cache = crashed && (desc->quirks & OCL_QUIRK_OWN_CACHE) != 0;
    if (own_cache)
        (void)ocl_pocl_mend(); /* another child will build the program once more */
    clt_child_loss(&end, "the compiler ended its process with", "the compiler did not return within", NULL,
                   why, sizeof why);
    if (silent || crashed)
        CLT_FAIL(CLT_EBUILD,
                 "building kernel family '%s' for device %s '%s' (driver %s): %s%s\n  options: %s",
                 request->family, desc->spec, desc->name, desc->driver, why,
                 own_cache ? " (if its cache is damaged, 'cltrain cache --clear pocl' empties it)" : "",
                 request->options);
    CLT_DEBUG("a child process that built '%s' was lost: %s", request->family, why);
    return CLT_OK;
}

clt_status ocl_builder_build(ocl_builder *builder, const ocl_program_request *request, bool *usable)
{
    CLT_SCOPED(clt_str) job = {0};
    const char *line = "";
    clt_child_event event;
    *usable = false;
    if (!builder->ready && await_greeting(builder) != CLT_OK) {
        CLT_DEBUG("%s", clt_error_text());
        clt_error_clear();
        return CLT_OK;
    }
    write_job(request, &job);
    CLT_TRY(clt_str_check(&job));
    if (clt_child_send(builder->child, job.text, job.length, BUILD_SECONDS) != CLT_OK)
        clt_error_clear(); /* the child has ended or hangs, as the next lines will find */
    do
        event = clt_child_next(builder->child, BUILD_SECONDS, &line);
    while (event == CLT_CHILD_LINE && strcmp(line, "done") != 0);
    *usable = event == CLT_CHILD_LINE;
    return *usable ? CLT_OK : judge(builder, request);
}
