/* SPDX-License-Identifier: Apache-2.0
 *
 * The device's answers for this process: answers that an earlier process has stored, or new ones. When
 * several ranks of a host start together, only one of them asks. Features that the driver refuses later are
 * stored together with the answers. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "cl/command/fallback.h"
#include "cl/device/internal.h"
#include "cl/probes/asking_child.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"

static bool is_complete(const ocl_capabilities *capabilities, const ocl_asking_options *w)
{
    uint32_t emulated = 0;
    if (ocl_emulated_caps(&emulated) != CLT_OK)
        clt_error_clear(); /* the caller meets the same failure and reports it */
    return capabilities->count > 0 &&
           (ocl_capabilities_were_asked(capabilities, w->mask, emulated, w->tests) ||
            ocl_capabilities_refusal(capabilities, w->tests) != NULL);
}

/* Waits for this process's turn to ask, with a time limit: ranks of a host start at the same time, and while
 * one asks, the others wait for its answers. Returns the lock's descriptor; below 0: no lock. */
static int take_turn(const char *path)
{
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    double until = clt_now() + 20 * OCL_PROBE_SECONDS;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    /* without locks in the file system, all ranks ask */
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR) &&
           clt_now() < until)
        (void)nanosleep(&pause, NULL);
    return fd;
}

/* Warns that the answers cannot be stored, so that every start asks again, which takes seconds. */
static void warn_not_stored(const ocl_found *found)
{
    CLT_WARN("the capabilities of device %s '%s' cannot be stored, so every start probes it again: %s",
             found->desc.spec, found->desc.name, clt_error_text());
    clt_error_clear();
}

static clt_status ask_and_keep(const ocl_found *found, const ocl_asking_options *w, ocl_capabilities *out)
{
    CLT_FREED char *path = NULL, *lock = NULL;
    CLT_CLOSED int turn = -1;
    clt_status status = ocl_capabilities_path(&found->desc, out->key, &path, &lock);
    if (status == CLT_ESTORAGE) { /* without a cache folder the device is tested at every start */
        warn_not_stored(found);
        return ocl_ask_children(found, w, out);
    }
    CLT_TRY(status);
    for (int i = 0; i < 2; i++) { /* twice: loaded again when this process has its turn to ask */
        if (!w->again)
            CLT_TRY(ocl_capabilities_load(path, &found->desc, out->key, out));
        if (is_complete(out, w))
            return CLT_OK;
        if (i == 0)
            turn = take_turn(lock);
    }
    CLT_TRY(ocl_ask_children(found, w, out));
    out->remembered = false;
    if (ocl_capabilities_save(path, &found->desc, out) != CLT_OK)
        warn_not_stored(found);
    return CLT_OK;
}

/* --- this process --- */

/* Answers that this process has, for when it opens a device again. */
typedef struct known_device {
    cl_device_id id;
    ocl_capabilities capabilities;
} known_device;
/* held while asking, so that one thread asks for all threads */
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static known_device *known;
static size_t n_known, known_capacity;

static void tell_losses(const ocl_found *found, const ocl_capabilities *capabilities)
{
    for (int cap = 0; cap < OCL_CAP_COUNT; cap++) {
        ocl_cap_report report = ocl_capabilities_report(capabilities, cap);
        if (ocl_answer_is_loss(report.answer))
            CLT_WARN("device %s '%s' goes without '%s' (%s)%s: %s", found->desc.spec, found->desc.name,
                     ocl_cap_name(cap), ocl_answer_name(report.answer),
                     capabilities->remembered ? ", as remembered; 'cltrain devices --again' asks again" : "",
                     report.reason);
    }
}

static clt_status ask_as_needed(const ocl_found *found, const ocl_open_options *options,
                                ocl_capabilities *out)
{
    ocl_asking_options w = {options->caps_mask, options->ask_again, !options->checker, options->style};
    known_device *mine = NULL;
    CLT_LOCKED(&known_lock);
    memset(out, 0, sizeof *out);
    CLT_TRY(ocl_capabilities_key(&found->desc, w.style, &out->key));
    for (size_t i = 0; i < n_known; i++)
        if (known[i].id == found->id && known[i].capabilities.key == out->key)
            mine = &known[i];
    if (mine != NULL && !w.again && is_complete(&mine->capabilities, &w)) {
        *out = mine->capabilities;
        return CLT_OK;
    }
    CLT_TRY(ask_and_keep(found, &w, out));
    if (mine == NULL) {
        CLT_TRY(clt_grow(&known, &known_capacity, n_known + 1, sizeof *known, "known devices"));
        mine = &known[n_known++];
    }
    *mine = (known_device){found->id, *out};
    tell_losses(found, out);
    return CLT_OK;
}

/* --- what the driver refused --- */

const ocl_unsupported *ocl_device_unsupported(const ocl_device *device)
{
    return &device->capabilities.unsupported;
}

static clt_status keep_unsupported(const ocl_device *device, const ocl_unsupported *unsupported)
{
    CLT_FREED char *path = NULL, *lock = NULL;
    CLT_FREED ocl_capabilities *capabilities = NULL;
    CLT_TRY(ocl_capabilities_path(&device->desc, device->capabilities.key, &path, &lock));
    CLT_CLOSED int turn = take_turn(lock);
    CLT_TRY(clt_alloc(&capabilities, 1, sizeof *capabilities, "answers"));
    CLT_TRY(ocl_capabilities_load(path, &device->desc, device->capabilities.key, capabilities));
    ocl_unsupported_add(&capabilities->unsupported, unsupported);
    return ocl_capabilities_save(path, &device->desc, capabilities);
}

void ocl_device_remember_unsupported(ocl_device *device, const ocl_unsupported *unsupported)
{
    CLT_LOCKED(&known_lock);
    ocl_unsupported_add(&device->capabilities.unsupported, unsupported);
    for (size_t i = 0; i < n_known; i++)
        if (known[i].id == device->id && known[i].capabilities.key == device->capabilities.key)
            ocl_unsupported_add(&known[i].capabilities.unsupported, unsupported);
    if (keep_unsupported(device, unsupported) != CLT_OK) { /* not stored: the next start finds them again */
        CLT_DEBUG("what device %s '%s' refused cannot be stored: %s", device->desc.spec, device->desc.name,
                  clt_error_text());
        clt_error_clear();
    }
}

clt_status ocl_ask(const ocl_found *found, const ocl_open_options *options, ocl_capabilities *out)
{
    CLT_TRY(ask_as_needed(found, options, out));
    const ocl_item *refused = ocl_capabilities_refusal(out, !options->checker);
    if (refused != NULL)
        CLT_FAIL(CLT_EDEVICE,
                 "device %s '%s' (driver %s) cannot be used: %s %s%s%s; %supdate the driver or choose "
                 "another device",
                 found->desc.spec, found->desc.name, found->desc.driver,
                 strcmp(refused->name, OCL_ITEM_BASIC) == 0 ? "running a trivial kernel" : refused->name,
                 ocl_answer_name(refused->answer), refused->reason[0] ? ": " : "", refused->reason,
                 found->desc.quirks & OCL_QUIRK_OWN_CACHE
                     ? "empty its cache of kernels ('cltrain cache --clear pocl'), "
                     : "");
    return CLT_OK;
}
