/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the events of commands under way, removes those that have ended, and remembers the first failure.
 * Nothing here waits. */
#include "cl/command/faults_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"

/* A command, or a group of commands. Texts are copied, because the executor that owns a command may have
 * been destroyed when its event is checked. */
typedef struct command_under_way {
    cl_event event;
    uint64_t number;
    int count;
    /* labels and kernels of the group's first and last command */
    char what[2][48];   /* "blk0.attn.qkv.forward" */
    char kernel[2][40]; /* "" where no kernel runs */
} command_under_way;

#define GROUP 16 /* largest number of commands in a group, which have one event together */

struct ocl_faults {
    command_under_way *list; /* sorted by number */
    size_t count, capacity;
    uint64_t enqueued;
    bool each; /* CLTRAIN_EVENTS=each */
    bool failed;
    cl_int code;
    command_under_way first; /* the first failed command; its event is released */
    clt_status data_failed;  /* not CLT_OK: data that commands need never arrived */
    char why_data_failed[1024];
};

clt_status ocl_faults_create(ocl_device *device)
{
    const char *text = getenv("CLTRAIN_EVENTS");
    CLT_TRY(clt_alloc(&device->faults, 1, sizeof *device->faults, "the list of commands under way"));
    device->faults->each = text != NULL && strcmp(text, "each") == 0;
    if (text != NULL && text[0] != '\0' && !device->faults->each)
        CLT_WARN("environment variable CLTRAIN_EVENTS=%s: only 'each' is known; it is ignored", text);
    return CLT_OK;
}

void ocl_faults_destroy(ocl_device *device)
{
    struct ocl_faults *f = device->faults;
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->count; i++)
        clReleaseEvent(f->list[i].event);
    free(f->list);
    free(f);
    device->faults = NULL;
}

/* Called with the device's lock held. */
static void note_failure(struct ocl_faults *f, const command_under_way *c, cl_int code)
{
    if (f->failed)
        return;
    f->failed = true;
    f->code = code;
    f->first = *c;
}

/* Called with the device's lock held: removes those commands up to `number` that have ended. */
static void look(struct ocl_faults *f, uint64_t number)
{
    size_t kept = 0, i = 0;
    for (; i < f->count && f->list[i].number <= number; i++) {
        command_under_way *c = &f->list[i];
        cl_int state = CL_QUEUED;
        cl_int code = clGetEventInfo(c->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (code != CL_SUCCESS)
            state = code;
        if (state > CL_COMPLETE) {
            f->list[kept++] = *c;
            continue;
        }
        if (state < 0)
            note_failure(f, c, state);
        clReleaseEvent(c->event);
    }
    if (kept < i)
        memmove(f->list + kept, f->list + i, (f->count - i) * sizeof *f->list);
    f->count -= i - kept;
}

static void copy_name(char *out, size_t size, const char *text)
{
    size_t length = strnlen(text, size - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}

/* The list is also checked after this many commands, so that it does not grow without limit if the caller
 * never checks. */
#define LOOK_EVERY 4096

int ocl_faults_group(const ocl_device *device)
{
    bool last = (device->desc.quirks & OCL_QUIRK_LASTING_FAILURES) != 0;
    return last && !device->faults->each ? GROUP : 1;
}

void ocl_group_add(ocl_group *group, const char *what, const char *kernel)
{
    for (int i = group->count++ == 0 ? 0 : 1; i < 2; i++) {
        group->what[i] = what;
        group->kernel[i] = kernel;
    }
}

static command_under_way copy_of(const ocl_group *group, cl_event event)
{
    command_under_way c = {.event = event, .count = group->count};
    for (int i = 0; i < 2; i++) {
        copy_name(c.what[i], sizeof c.what[i], group->what[i]);
        copy_name(c.kernel[i], sizeof c.kernel[i], group->kernel[i]);
    }
    return c;
}

clt_status ocl_faults_add(ocl_device *device, ocl_group *group, cl_event event)
{
    struct ocl_faults *f = device->faults;
    command_under_way c = copy_of(group, event);
    group->count = 0;
    OCL_CHECK(clRetainEvent(event), "keeping the event of '%s'", c.what[1]);
    pthread_mutex_lock(&device->lock);
    c.number = ++f->enqueued;
    if (f->count >= LOOK_EVERY && f->count % LOOK_EVERY == 0)
        look(f, f->enqueued);
    clt_status status =
        clt_grow(&f->list, &f->capacity, f->count + 1, sizeof *f->list, "the list of commands under way");
    if (status == CLT_OK)
        f->list[f->count++] = c;
    pthread_mutex_unlock(&device->lock);
    if (status != CLT_OK)
        clReleaseEvent(event);
    return status;
}

clt_status ocl_faults_add_one(ocl_device *device, const char *what, const char *kernel, cl_event event)
{
    ocl_group group = {.count = 0};
    ocl_group_add(&group, what, kernel);
    return ocl_faults_add(device, &group, event);
}

clt_status ocl_faults_close(ocl_device *device, cl_command_queue queue, ocl_group *group)
{
    struct ocl_faults *f = device->faults;
    cl_event end = NULL;
    if (group->count == 0)
        return CLT_OK;
    cl_int code = clEnqueueMarkerWithWaitList(queue, 0, NULL, &end);
    if (code == CL_SUCCESS) {
        clt_status status = ocl_faults_add(device, group, end);
        clReleaseEvent(end);
        return status;
    }
    const command_under_way c = copy_of(group, NULL);
    group->count = 0;
    pthread_mutex_lock(&device->lock);
    look(f, f->enqueued);
    note_failure(f, &c, code);
    pthread_mutex_unlock(&device->lock);
    return ocl_commands_check(device, ocl_commands_enqueued(device));
}

uint64_t ocl_commands_enqueued(ocl_device *device)
{
    CLT_LOCKED(&device->lock);
    return device->faults->enqueued;
}

void ocl_commands_spoil(ocl_device *device, clt_status status, const char *text)
{
    struct ocl_faults *f = device->faults;
    CLT_LOCKED(&device->lock);
    if (f->data_failed == CLT_OK) {
        f->data_failed = status;
        copy_name(f->why_data_failed, sizeof f->why_data_failed, text);
    }
}

bool ocl_commands_failed(ocl_device *device)
{
    struct ocl_faults *f = device->faults;
    if (f == NULL)
        return false;
    CLT_LOCKED(&device->lock);
    look(f, f->enqueued);
    return f->failed;
}

bool ocl_wait_for_callback(ocl_device *device, pthread_cond_t *changed, pthread_mutex_t *lock)
{
    if (clt_cond_wait_turn(changed, lock))
        return true;
    pthread_mutex_unlock(lock); /* unlocked, because callbacks need the lock */
    bool failed = ocl_commands_failed(device);
    pthread_mutex_lock(lock);
    return !failed;
}

/* Writes "command 'fc1.forward', kernel gemm_simple, which", or the same for a group. */
static void tell(const command_under_way *c, char *text, size_t size)
{
    const char *first = c->kernel[0], *last = c->kernel[1];
    bool kernels = first[0] != '\0' && last[0] != '\0';
    if (c->count == 1)
        snprintf(text, size, "command '%s'%s%s, which", c->what[0], kernels ? ", kernel " : "", first);
    else
        snprintf(text, size, "commands '%s' to '%s' (%d commands%s%s%s%s), one of which", c->what[0],
                 c->what[1], c->count, kernels ? ", kernels " : "", kernels ? first : "",
                 kernels ? " to " : "", kernels ? last : "");
}

clt_status ocl_commands_check(ocl_device *device, uint64_t number)
{
    struct ocl_faults *f = device->faults;
    pthread_mutex_lock(&device->lock);
    look(f, number);
    bool failed = f->failed;
    cl_int code = f->code;
    command_under_way c = f->first;
    clt_status data_failed = failed ? CLT_OK : f->data_failed;
    pthread_mutex_unlock(&device->lock);
    if (data_failed != CLT_OK) /* the text is written only once */
        CLT_FAIL(data_failed, "%s", f->why_data_failed);
    if (!failed)
        return CLT_OK;
    char text[256];
    tell(&c, text, sizeof text);
    CLT_FAIL(CLT_EDEVLOST,
             "device %s '%s' accepted %s then failed: %s (%d)%s; do not trust results since then; run "
             "'cltrain doctor'",
             device->desc.spec, device->desc.name, text, ocl_error_name(code), code,
             c.count > 1 ? "; with the environment variable CLTRAIN_EVENTS=each the command is named" : "");
}
