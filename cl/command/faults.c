/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of events of commands under way: faults.h. Nothing here waits. */
#include "cl/command/faults_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"

/* Texts are copied: the executor that owns a command may have been destroyed when its event is checked. */
typedef struct command_under_way {
    cl_event event;
    uint64_t number;
    char what[48];   /* "blk0.attn.qkv.forward" */
    char kernel[40]; /* "" where no kernel runs */
} command_under_way;

struct ocl_faults {
    command_under_way *list; /* sorted by number */
    size_t count, capacity;
    uint64_t enqueued;
    bool failed;
    cl_int code;
    command_under_way first; /* the first failed command; its event is released */
    clt_status spoiled;      /* CLT_OK: data arrived so far */
    char why_spoiled[1024];
};

clt_status ocl_faults_create(ocl_device *device)
{
    return clt_alloc(&device->faults, 1, sizeof *device->faults, "the list of commands under way");
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

/* Called with the device's lock held: removes the commands up to `number` that have ended. */
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
        if (state < 0 && !f->failed) {
            f->failed = true;
            f->code = state;
            f->first = *c;
        }
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

clt_status ocl_faults_add(ocl_device *device, const char *what, const char *kernel, cl_event event)
{
    struct ocl_faults *f = device->faults;
    OCL_CHECK(clRetainEvent(event), "keeping the event of '%s'", what);
    pthread_mutex_lock(&device->lock);
    f->enqueued++;
    if (f->count >= LOOK_EVERY && f->count % LOOK_EVERY == 0)
        look(f, f->enqueued);
    clt_status status =
        clt_grow(&f->list, &f->capacity, f->count + 1, sizeof *f->list, "the list of commands under way");
    if (status == CLT_OK) {
        command_under_way *c = &f->list[f->count++];
        c->event = event;
        c->number = f->enqueued;
        copy_name(c->what, sizeof c->what, what);
        copy_name(c->kernel, sizeof c->kernel, kernel);
    }
    pthread_mutex_unlock(&device->lock);
    if (status != CLT_OK)
        clReleaseEvent(event);
    return status;
}

uint64_t ocl_commands_enqueued(ocl_device *device)
{
    pthread_mutex_lock(&device->lock);
    uint64_t number = device->faults->enqueued;
    pthread_mutex_unlock(&device->lock);
    return number;
}

void ocl_commands_spoil(ocl_device *device, clt_status status, const char *text)
{
    struct ocl_faults *f = device->faults;
    pthread_mutex_lock(&device->lock);
    if (f->spoiled == CLT_OK) {
        f->spoiled = status;
        copy_name(f->why_spoiled, sizeof f->why_spoiled, text);
    }
    pthread_mutex_unlock(&device->lock);
}

bool ocl_commands_failed(ocl_device *device)
{
    struct ocl_faults *f = device->faults;
    if (f == NULL)
        return false;
    pthread_mutex_lock(&device->lock);
    look(f, f->enqueued);
    bool failed = f->failed;
    pthread_mutex_unlock(&device->lock);
    return failed;
}

bool ocl_wait_for_callback(ocl_device *device, pthread_cond_t *changed, pthread_mutex_t *lock)
{
    if (clt_cond_wait_turn(changed, lock))
        return true;
    pthread_mutex_unlock(lock); /* callbacks need the lock */
    bool failed = ocl_commands_failed(device);
    pthread_mutex_lock(lock);
    return !failed;
}

clt_status ocl_commands_check(ocl_device *device, uint64_t number)
{
    struct ocl_faults *f = device->faults;
    pthread_mutex_lock(&device->lock);
    look(f, number);
    bool failed = f->failed;
    cl_int code = f->code;
    command_under_way c = f->first;
    clt_status spoiled = failed ? CLT_OK : f->spoiled;
    pthread_mutex_unlock(&device->lock);
    if (spoiled != CLT_OK) /* the text does not change any more */
        CLT_FAIL(spoiled, "%s", f->why_spoiled);
    if (!failed)
        return CLT_OK;
    CLT_FAIL(
        CLT_EDEVLOST,
        "device %s '%s' accepted command '%s'%s%s, which then failed: %s (%d); results since then are not "
        "to be trusted; run 'cltrain doctor'",
        device->desc.spec, device->desc.name, c.what, c.kernel[0] != '\0' ? ", kernel " : "", c.kernel,
        ocl_error_name(code), code);
}
