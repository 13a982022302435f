/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: choosing by SPEC, opening with a context and two in-order queues, closing. All other files hold
 * an ocl_device and never a platform. This file must not know what runs on the device. */
#include "cl/command/faults_internal.h"
#include "cl/command/memory.h"
#include "cl/command/record.h"
#include "cl/device/listing.h"
#include "cl/device/matrix_unit.h"
#include "cl/drivers/icd.h"
#include "cl/program/builders.h"
#include "cl/program/program_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/host/last_words.h"

static int rank_count = 1;      /* ranks on this host, from ocl_prepare_process */
static int core_rank_count = 1; /* how many of these ranks share this rank's cores */

/* List of open devices, by which an event's device is found and the last close can clean up. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static ocl_device **open_devices;
static size_t n_open, open_capacity;

int ocl_ranks_here(void)
{
    return rank_count;
}

int ocl_threads_here(void)
{
    int share = clt_cpu_count() / core_rank_count;
    return share > 1 ? share : 1;
}

void ocl_prepare_process(int local_ranks, int core_ranks)
{
    rank_count = local_ranks > 1 ? local_ranks : 1;
    core_rank_count = core_ranks > 1 ? core_ranks : 1;
    /* Limits PoCL's threads. PoCL 3 reads the first variable, PoCL 4 and later the second; values set by the
     * user stay. Without a limit PoCL starts a thread for every core of the machine, even in a process that
     * may use only few of them. */
    static const char *const names[] = {"POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT"};
    bool all = rank_count == 1 && clt_cpu_count() >= sysconf(_SC_NPROCESSORS_ONLN);
    if (all || getenv(names[0]) != NULL || getenv(names[1]) != NULL)
        return;
    char text[16];
    snprintf(text, sizeof text, "%d", ocl_threads_here());
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        setenv(names[i], text, 0);
}

void ocl_device_share(ocl_device *device, int ranks)
{
    if (ranks > 1)
        device->desc.usable_bytes /= (uint64_t)ranks;
}

/* Opening */

static clt_status choose(const ocl_found *found, int count, const ocl_open_options *options, int *index,
                         int *matches)
{
    CLT_FREED const ocl_device_desc **list = NULL;
    CLT_TRY(clt_alloc(&list, (size_t)count, sizeof *list, "the list of devices"));
    for (int i = 0; i < count; i++)
        list[i] = &found[i].desc;
    return ocl_spec_match(list, count, options->spec, options->local_rank, index, matches);
}

clt_status ocl_count_devices(const char *spec, int *count, bool *cpu)
{
    CLT_FREED ocl_found *found = NULL;
    int n, index = 0;
    const ocl_open_options options = {.spec = spec};
    *count = 0;
    *cpu = false;
    CLT_TRY(ocl_enumerate(&found, &n));
    CLT_TRY(choose(found, n, &options, &index, count));
    *cpu = found[index].desc.is_cpu;
    return CLT_OK;
}

/* Checks the minimum: available, with a compiler, full profile, OpenCL 1.2, little-endian. */
static clt_status check_floor(cl_device_id id, const ocl_device_desc *desc)
{
    static const struct {
        cl_device_info what;
        const char *text;
    } needed[] = {
        {CL_DEVICE_AVAILABLE, "it is not available (in use, or its driver is not working)"},
        {CL_DEVICE_COMPILER_AVAILABLE, "its driver has no OpenCL C compiler"},
        {CL_DEVICE_ENDIAN_LITTLE, "it is big-endian"},
    };
    CLT_FREED char *profile = NULL;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        cl_bool value = CL_FALSE;
        CLT_TRY(ocl_device_ask(id, needed[i].what, sizeof value, &value));
        if (!value)
            CLT_FAIL(CLT_EDEVICE, "opening device %s '%s': %s; choose another device", desc->spec, desc->name,
                     needed[i].text);
    }
    int major = 0, minor = 0;
    if (sscanf(desc->version, "OpenCL %d.%d", &major, &minor) != 2 || major * 10 + minor < 12)
        CLT_FAIL(CLT_EDEVICE,
                 "opening device %s '%s': it reports '%s' and OpenCL 1.2 is needed; choose another device",
                 desc->spec, desc->name, desc->version);
    CLT_TRY(ocl_device_ask_text(id, CL_DEVICE_PROFILE, &profile));
    if (strcmp(profile, "FULL_PROFILE") != 0)
        CLT_FAIL(CLT_EDEVICE,
                 "opening device %s '%s': it has only the embedded profile; choose another device",
                 desc->spec, desc->name);
    return CLT_OK;
}

clt_status ocl_device_open_queue(ocl_device *device, ocl_queue queue)
{
    static const char *const names[OCL_QUEUE_COUNT] = {"compute", "copy", "outward", "inward"};
    cl_int code;
    if (device->queue[queue] != NULL)
        return CLT_OK;
    device->queue[queue] = clCreateCommandQueue(device->context, device->id,
                                                device->profiling ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
    if (code == CL_INVALID_QUEUE_PROPERTIES && device->profiling && queue == OCL_QUEUE_COMPUTE) {
        device->profiling = false; /* not fatal: functions that need times report it */
        device->queue[queue] = clCreateCommandQueue(device->context, device->id, 0, &code);
    }
    OCL_CHECK(code, "creating the %s queue on device %s '%s'", names[queue], device->desc.spec,
              device->desc.name);
    return CLT_OK;
}

static clt_status create_queues(ocl_device *device)
{
    cl_int code;
    cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)device->platform, 0};
    const ocl_device_desc *desc = &device->desc;
    CLT_TRY(ocl_faults_create(device)); /* the device's list of commands under way */
    device->context = clCreateContext(properties, 1, &device->id, NULL, NULL, &code);
    OCL_CHECK(code, "creating a context on device %s '%s'", desc->spec, desc->name);
    CLT_TRY(ocl_device_open_queue(device, OCL_QUEUE_COMPUTE));
    return ocl_device_open_queue(device, OCL_QUEUE_COPY);
}

static clt_status register_device(ocl_device *device)
{
    CLT_LOCKED(&open_lock);
    clt_status status =
        clt_grow(&open_devices, &open_capacity, n_open + 1, sizeof *open_devices, "the list of open devices");
    if (status == CLT_OK)
        open_devices[n_open++] = device;
    return status;
}

/* Removes a device from the list of open ones. True if it was the last. */
static bool unregister_device(ocl_device *device)
{
    CLT_LOCKED(&open_lock);
    bool was_open = false;
    for (size_t i = 0; i < n_open; i++) {
        if (open_devices[i] == device) {
            open_devices[i] = open_devices[--n_open];
            was_open = true;
            break;
        }
    }
    bool last = was_open && n_open == 0;
    if (n_open == 0) {
        free(open_devices);
        open_devices = NULL;
        open_capacity = 0;
    }
    return last;
}

clt_status ocl_emulated_caps(uint32_t *emulated)
{
    const char *text = getenv("CLTRAIN_EMULATE");
    char names[200];
    *emulated = 0;
    if (text == NULL || text[0] == '\0')
        return CLT_OK;
    clt_status status = ocl_caps_parse(text, emulated);
    CLT_TRY(clt_fail_prefix(status, "environment variable CLTRAIN_EMULATE"));
    if ((*emulated & ~ocl_emulated_units()) != 0)
        CLT_FAIL(CLT_EUSAGE, "environment variable CLTRAIN_EMULATE=%s: only matrix units can be emulated: %s",
                 text, ocl_caps_text(ocl_emulated_units(), names, sizeof names));
    return CLT_OK;
}

/* Emulating matrix units removes lane style, which would otherwise be chosen for all products. */
uint32_t ocl_caps_with_emulated(uint32_t caps, uint32_t emulated)
{
    return emulated ? (caps & ~(uint32_t)OCL_CAP_WIDE_VECTORS) : caps;
}

/* Sets the capabilities from the answers, including emulated ones. */
static clt_status take_capabilities(ocl_device *device, uint32_t mask, bool tests)
{
    char text[256];
    ocl_device_desc *desc = &device->desc;
    uint32_t emulated, all = (1u << OCL_CAP_COUNT) - 1;
    CLT_TRY(ocl_emulated_caps(&emulated));
    uint32_t caps =
        ocl_caps_with_emulated(ocl_capabilities_caps(&device->capabilities, emulated, tests), emulated);
    if (emulated != 0 && desc->compute_capability != 0)
        CLT_FAIL(
            CLT_EUSAGE,
            "environment variable CLTRAIN_EMULATE=%s: device '%s' is an NVIDIA GPU, for which kernels use "
            "instructions and no emulation",
            getenv("CLTRAIN_EMULATE"), desc->name);
    desc->caps = caps & mask;
    desc->emulated_caps = emulated & caps;
    /* the mask removes these from the capabilities that the device has or may have */
    desc->masked_caps = 0;
    for (int cap = 0; cap < OCL_CAP_COUNT; cap++) {
        const ocl_item *item = ocl_capabilities_find(&device->capabilities, ocl_cap_name(cap));
        bool never_asked = item == NULL && !(device->capabilities.probed >> cap & 1u);
        if ((caps >> cap & 1u) || never_asked)
            desc->masked_caps |= 1u << cap & ~mask & all;
    }
    ocl_capabilities_sizes(&device->capabilities, desc);
    if (desc->emulated_caps != 0)
        CLT_WARN("device '%s' emulates matrix units that it does not have (CLTRAIN_EMULATE): %s; it is slow",
                 desc->name, ocl_caps_text(desc->emulated_caps, text, sizeof text));
    CLT_DEBUG("device %s '%s': capabilities %s", desc->spec, desc->name,
              ocl_caps_text(desc->caps, text, sizeof text));
    return CLT_OK;
}

clt_status ocl_device_open_bare(const ocl_found *found, bool profiling, ocl_device **out)
{
    CLT_SCOPED(ocl_device) *device = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&device, 1, sizeof *device, "a device"));
    pthread_mutex_init(&device->lock, NULL);
    device->platform = found->platform;
    device->id = found->id;
    device->desc = found->desc;
    device->profiling = profiling;
    CLT_TRY(create_queues(device));
    CLT_TRY(register_device(device));
    *out = CLT_TAKE(device);
    return CLT_OK;
}

/* Chooses a device that SPEC matches, and gets its answers. A device that cannot be used is skipped, unless
 * SPEC is its index or name. */
static clt_status choose_usable(ocl_found *found, int count, const ocl_open_options *options, int *index,
                                ocl_capabilities *capabilities)
{
    clt_error first = {.status = CLT_OK};
    int matches;
    for (int left = count; left > 0; left--) {
        clt_status status = choose(found, left, options, index, &matches);
        if (status != CLT_OK)
            return first.status != CLT_OK ? clt_error_put(&first) : status;
        ocl_found chosen = found[*index];
        status = check_floor(chosen.id, &chosen.desc);
        if (status == CLT_OK)
            status = ocl_ask(&chosen, options, capabilities);
        if (status == CLT_OK || status != CLT_EDEVICE || ocl_spec_names_one(options->spec))
            return status;
        CLT_WARN("passing over device %s '%s': %s", chosen.desc.spec, chosen.desc.name, clt_error_text());
        if (first.status == CLT_OK)
            clt_error_take(status, &first);
        memmove(&found[*index], &found[*index + 1], (size_t)(left - 1 - *index) * sizeof *found);
    }
    return clt_error_put(&first);
}

/* CLTRAIN_STYLE=lanes or groups sets this style, even if it is slower or a checkpoint states another one. */
static clt_status style_of_environment(ocl_style *style)
{
    const char *text = getenv("CLTRAIN_STYLE");
    if (text != NULL && text[0] != '\0' && !ocl_style_from_name(text, style))
        CLT_FAIL(CLT_EUSAGE, "environment variable CLTRAIN_STYLE=%s: expected 'lanes' or 'groups'", text);
    return CLT_OK;
}

/* Fails if the limit on file size is too low for compilers of drivers, which write files. A driver might
 * refuse kernels only because of this limit, and such answers must not be stored. */
#define LEAST_FILE_BYTES (256u << 10)
static clt_status check_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < LEAST_FILE_BYTES)
        CLT_FAIL(CLT_ESTORAGE,
                 "opening a device: files may not grow beyond %llu bytes (ulimit -f), and drivers write "
                 "larger ones when they build kernels; raise the limit",
                 (unsigned long long)limit.rlim_cur);
    return CLT_OK;
}

/* Sets the text that is printed if the process ends by abort() or a crash: PoCL calls abort() when it cannot
 * load one of its kernels, and runs a damaged one. */
static void prepare_last_words(const ocl_device_desc *desc)
{
    char text[512];
    snprintf(text, sizeof text,
             "device lost: something in this process called abort() or crashed, most likely the driver of "
             "device %s '%.100s', as PoCL does when a kernel of its cache is damaged or cannot be loaded; "
             "start again, and if that does not help, empty the cache: 'cltrain cache --clear pocl'",
             desc->spec, desc->name);
    clt_last_words_set(desc->quirks & OCL_QUIRK_OWN_CACHE ? text : NULL);
}

/* Opens the device that SPEC names, with its capabilities. */
static clt_status open_device(const ocl_open_options *options, ocl_device **out)
{
    CLT_FREED ocl_found *found = NULL;
    CLT_FREED ocl_capabilities *capabilities = NULL;
    CLT_SCOPED(ocl_device) *device = NULL;
    int count, index = 0;
    CLT_TRY(ocl_enumerate(&found, &count));
    CLT_TRY(clt_alloc(&capabilities, 1, sizeof *capabilities, "answers"));
    CLT_TRY(choose_usable(found, count, options, &index, capabilities));
    bool profiling = options->profiling || (options->profiling_on_cpu && found[index].desc.is_cpu);
    CLT_TRY(ocl_device_open_bare(&found[index], profiling, &device));
    device->capabilities = *capabilities;
    CLT_TRY(take_capabilities(device, options->caps_mask, !options->checker));
    *out = CLT_TAKE(device);
    return CLT_OK;
}

clt_status ocl_device_open(const ocl_open_options *wanted, ocl_device **out)
{
    ocl_open_options options = *wanted;
    *out = NULL;
    CLT_TRY(style_of_environment(&options.style));
    CLT_TRY(check_file_limit());
    clt_status status = open_device(&options, out);
    if (status != CLT_OK) {
        ocl_builders_forget();
        return status;
    }
    ocl_binary_cache_open(*out);
    prepare_last_words(&(*out)->desc);
    return CLT_OK;
}

ocl_cap_report ocl_device_cap_report(const ocl_device *device, int cap)
{
    ocl_cap_report report = ocl_capabilities_report(&device->capabilities, cap);
    if (report.answer <= OCL_ANSWER_YES)
        report.answer = device->desc.caps >> cap & 1u          ? OCL_ANSWER_YES
                        : device->desc.masked_caps >> cap & 1u ? OCL_ANSWER_MASKED
                                                               : OCL_ANSWER_NOT_ASKED;
    return report;
}

static void finish_queues(const ocl_device *device)
{
    for (int i = 0; i < OCL_QUEUE_COUNT; i++)
        if (device->queue[i] != NULL)
            clFinish(device->queue[i]);
}

static void release_context(ocl_device *device)
{
    for (int i = 0; i < OCL_QUEUE_COUNT; i++)
        if (device->queue[i] != NULL)
            clReleaseCommandQueue(device->queue[i]);
    if (device->context != NULL)
        clReleaseContext(device->context);
}

static void (*last_closed)(void);

void ocl_device_when_last_closes(void (*fn)(void))
{
    CLT_LOCKED(&open_lock);
    last_closed = fn;
}

void ocl_device_close(ocl_device *device)
{
    CLT_KEEP_ERROR();
    if (device == NULL)
        return;
    bool lost = ocl_commands_failed(device); /* queues and context are then not released */
    if (!lost)
        finish_queues(device);
    ocl_builders_dismiss(device);
    ocl_record_stop(device);
    ocl_faults_destroy(device);
    bool last = unregister_device(device);
    if (last && last_closed != NULL)
        last_closed();
    for (const ocl_buffer *b = device->buffers; b != NULL && !lost; b = b->next)
        CLT_WARN("closing device %s while buffer '%s' (%llu bytes) is open", device->desc.spec, b->what,
                 (unsigned long long)b->bytes);
    if (device->fill_kernel != NULL)
        clReleaseKernel(device->fill_kernel);
    if (device->fill_byte_kernel != NULL)
        clReleaseKernel(device->fill_byte_kernel);
    if (device->tile_counter != NULL)
        clReleaseMemObject(device->tile_counter);
    ocl_programs_forget(device);
    ocl_gathered_free(device->gathered);
    free(device->programs);
    ocl_binary_cache_close(device);
    if (!lost)
        release_context(device);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

const ocl_device_desc *ocl_device_describe(const ocl_device *device)
{
    return &device->desc;
}

ocl_device *ocl_device_of_queue(cl_command_queue queue)
{
    ocl_device *result = NULL;
    CLT_LOCKED(&open_lock);
    for (size_t i = 0; i < n_open && result == NULL && queue != NULL; i++)
        for (int q = 0; q < OCL_QUEUE_COUNT; q++)
            if (open_devices[i]->queue[q] == queue)
                result = open_devices[i];
    return result;
}

void ocl_count_host_wait(ocl_device *device)
{
    if (device == NULL)
        return;
    CLT_LOCKED(&device->lock);
    device->counters.host_waits++;
}

ocl_counters ocl_device_counters(const ocl_device *device)
{
    ocl_device *own = (ocl_device *)(uintptr_t)device; /* the cast only removes const for the lock */
    CLT_LOCKED(&own->lock);
    return own->counters;
}
