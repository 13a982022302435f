/* SPDX-License-Identifier: Apache-2.0
 *
 * The structs of the opaque handles, and functions that the files of cl/ share. No other room includes
 * it. */
#ifndef CL_DEVICE_INTERNAL_H
#define CL_DEVICE_INTERNAL_H

#include <CL/cl.h>
#include <pthread.h>

#include "cl/device/capabilities.h"

static inline void cl_event_end_scope(const cl_event *event) /* lets CLT_SCOPED(cl_event) work */
{
    if (*event != NULL)
        clReleaseEvent(*event);
}
static inline void cl_program_end_scope(const cl_program *program)
{
    if (*program != NULL)
        clReleaseProgram(*program);
}

/* The meter of cl/command/record.h: CPU seconds and calls so far. */
typedef struct ocl_meter_state {
    bool on;
    double seconds;
    uint64_t calls;
} ocl_meter_state;

struct ocl_recorder;
struct ocl_faults;
struct ocl_binary_cache;

/* The largest number of threads or processes that build at the same time; each takes some hundred MiB of
 * host memory. */
#define OCL_BUILDERS_MAX 8

struct ocl_device {
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue[OCL_QUEUE_COUNT]; /* NULL: not open */
    bool profiling;
    const struct ocl_exec_watcher *watcher; /* watches executors (cl/exec/exec.h), or NULL */
    struct ocl_recorder *recorder;          /* cl/command/record.c; NULL: nothing is recorded */
    /* cl/command/faults.c: commands that are not yet known to have succeeded; under lock */
    struct ocl_faults *faults;
    ocl_meter_state meter;
    ocl_device_desc desc;
    ocl_capabilities capabilities;
    struct ocl_program **programs; /* cache by (family, options) */
    size_t n_programs, programs_capacity;
    struct ocl_gathered *gathered; /* cl/program/program_gather.c; NULL: programs are built on request */
    /* builder children (cl/program/program_build.c), or NULL */
    struct ocl_builder *builders[OCL_BUILDERS_MAX];
    struct ocl_binary_cache *binaries; /* cl/program/program_cache.c; NULL: no cache of binaries */
    uint64_t bytes, peak_bytes;
    ocl_counters counters;
    pthread_mutex_t lock;
    struct ocl_buffer *buffers; /* open buffers, newest first; under lock */
    cl_kernel fill_kernel;      /* fill_u32, created on first use (OCL_QUIRK_FILL_BY_KERNEL); under lock */
    cl_kernel fill_byte_kernel; /* kernel fill_u8, for ranges that are not whole words */
    cl_mem tile_counter;        /* OCL_ARG_TILE_COUNTER of every command, created on first use; under lock */
};

struct ocl_buffer {
    ocl_device *device;
    cl_mem mem;
    uint64_t bytes;
    void *pages; /* pages allocated by us that hold the buffer; NULL: the driver allocated its memory */
    void *over;  /* the caller's memory, if the buffer uses it; else NULL */
    char what[64];
    struct ocl_buffer *next, *previous; /* the device's list */
};

#define OCL_CHECK(code, ...)                                                                                 \
    do {                                                                                                     \
        cl_int ocl_check_code_ = (code);                                                                     \
        if (ocl_check_code_ != CL_SUCCESS)                                                                   \
            return ocl_fail(ocl_check_code_, __FILE__, __LINE__, __VA_ARGS__);                               \
    } while (0)

/* Largest group for this kernel: as reported by the driver, or more if a probe showed more to work. */
static inline cl_int ocl_kernel_limit(const ocl_device *device, cl_kernel kernel, size_t *limit)
{
    *limit = 1;
    cl_int code =
        clGetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof *limit, limit, NULL);
    if (code == CL_SUCCESS && device->desc.larger_groups > *limit)
        *limit = (size_t)device->desc.larger_groups;
    if (code == CL_SUCCESS && device->desc.max_work_group > 0 && *limit > device->desc.max_work_group)
        *limit = (size_t)device->desc.max_work_group;
    return code;
}

/* Bytes of the local arrays that this kernel declares: as reported by the driver, divided by
 * local_report_factor. To be called before arguments are set, because some drivers include local
 * arguments. */
static inline cl_int ocl_kernel_local_bytes(const ocl_device *device, cl_kernel kernel, uint64_t *bytes)
{
    cl_ulong said = 0;
    cl_int code =
        clGetKernelWorkGroupInfo(kernel, device->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof said, &said, NULL);
    *bytes = said / (device->desc.local_report_factor ? device->desc.local_report_factor : 1);
    return code;
}

/* `wanted`, a power of two, halved until this kernel supports groups of that size. */
static inline size_t ocl_kernel_items(const ocl_device *device, cl_kernel kernel, size_t wanted)
{
    size_t limit;
    if (ocl_kernel_limit(device, kernel, &limit) != CL_SUCCESS)
        limit = 1;
    while (wanted > 1 && wanted > limit)
        wanted /= 2;
    return wanted;
}

/* Events: ocl_event is the cl_event itself. */
static inline cl_event ocl_event_raw(ocl_event *event)
{
    return (cl_event)(void *)event;
}
static inline ocl_event *ocl_event_wrap(cl_event event)
{
    return (ocl_event *)(void *)event;
}

/* A device as the platforms list it. */
typedef struct ocl_found {
    cl_platform_id platform;
    cl_device_id id;
    ocl_device_desc desc;
} ocl_found;

/* enumerate.c: every device of every platform; free() the array. */
clt_status ocl_enumerate(ocl_found **out, int *count);
/* Writes a sentence about the limit on memory (ulimit -v), "" if there is no limit; returns text. Errors
 * need this sentence, because the loader treats a driver that does not fit into the address space as not
 * installed. */
const char *ocl_memory_limit(char *text, size_t size);
/* In a child process: the device to which the parent gave this index. CLT_EDEVICE: there is none. */
clt_status ocl_find_in_child(const char *spec, ocl_found *out);
/* Finds the device that SPEC names among `count` descriptions: its index, and the number of matching
 * devices of its platform (ranks are distributed among them). CLT_EDEVICE lists the devices. Pure. */
clt_status ocl_spec_match(const ocl_device_desc *const *list, int count, const char *spec, int local_rank,
                          int *index, int *matches);
/* Whether SPEC is the index or name of a device, and not "any", "cpu" or "gpu". */
bool ocl_spec_names_one(const char *spec);
/* Number of threads for this process: its cores divided by the ranks on this host. */
int ocl_threads_here(void);
int ocl_ranks_here(void); /* ranks on this host, including this one */
/* The open device that owns a queue, or NULL. */
ocl_device *ocl_device_of_queue(cl_command_queue queue);
void ocl_count_host_wait(ocl_device *device);

/* Opens a device with its queues, but without testing its capabilities. */
clt_status ocl_device_open_bare(const ocl_found *found, bool profiling, ocl_device **out);
/* The capabilities that CLTRAIN_EMULATE names, which the device is to emulate; 0: none. CLT_EUSAGE. */
clt_status ocl_emulated_caps(uint32_t *emulated);
/* Removes lane style from `caps` if the device emulates capabilities. */
uint32_t ocl_caps_with_emulated(uint32_t caps, uint32_t emulated);

/* probes.c: the questions that probe kernels answer, in the order in which they are asked. */
typedef struct ocl_probe_state {
    const struct ocl_question *question;
    ocl_device *device; /* open when `ask` is called, NULL when `wanted` is called */
    const ocl_device_desc *desc;
    const ocl_capabilities *capabilities; /* so far */
    uint32_t caps;                        /* capabilities found so far */
    const char *extensions;               /* the device's CL_DEVICE_EXTENSIONS, may be NULL */
    ocl_style style;                      /* the faster style is timed only if ASKED */
} ocl_probe_state;
typedef struct ocl_question {
    const char *name; /* name of a capability, or "basic", "local_memory_64" */
    uint32_t cap;
    /* Whether to ask the question now. If not, `why` gets the reason, or stays empty if the answer may
     * change later. NULL: always. */
    bool (*wanted)(const ocl_probe_state *state, char *why, size_t size);
    /* Fills in answer, value and reason. Fails if a call fails; a refused build then counts as REFUSED. */
    clt_status (*ask)(const ocl_probe_state *state, ocl_item *item);
    uint32_t parameter; /* a size that the driver does not promise, in KiB; 0: none */
} ocl_question;
/* The questions that are not about matrix units (those are in the records of the units); ends with a NULL
 * name. */
extern const ocl_question ocl_questions[];

/* The kind of questions for which programs are being built ahead (asking.c). */
typedef enum ocl_ahead { OCL_AHEAD_NOTHING, OCL_AHEAD_PROBES, OCL_AHEAD_TESTS } ocl_ahead;

/* asking.c: asks, in this process, the questions that are not answered yet. `begun` and `ended` (may be
 * NULL) are called for each question. */
typedef struct ocl_asker {
    const ocl_found *found;
    uint32_t mask;
    bool tests;
    int share; /* OCL_ALL_SHARES: all */
    ocl_style style;
    ocl_capabilities *capabilities;
    clt_status (*begun)(const ocl_item *item);
    clt_status (*ended)(const ocl_item *item);
    ocl_device *device; /* the device if it is open, to be closed by the caller; else NULL */
    /* renewed: another process can continue. This one therefore stops asking and sets `must_be_replaced`
     * after a failure that lasts as long as the process (OCL_QUIRK_LASTING_FAILURES). */
    bool renewed, must_be_replaced;
    /* Called when the programs of all probes or self-tests begin to be built ahead, after each of `total`
     * programs, and at the end. NULL: each program is built when its question is asked. If a build fails in
     * a way that says nothing about the program, `must_be_replaced` is set and the end is not reported. */
    clt_status (*ahead)(ocl_ahead phase, int done, int total);
} ocl_asker;
clt_status ocl_ask_here(ocl_asker *asker);
/* The time limit of a question to a driver: `seconds`, or CLTRAIN_PROBE_SECONDS (slow machines, tests). */
static inline double ocl_probe_limit(double seconds)
{
    const char *text = getenv("CLTRAIN_PROBE_SECONDS");
    return text != NULL && atof(text) > 0.0 ? atof(text) : seconds;
}
/* asking_answers.c: the device's answers, from the cache or from questions in child processes. CLT_EDEVICE
 * when the device was refused; the answers are filled in even then. */
clt_status ocl_ask(const ocl_found *found, const ocl_open_options *options, ocl_capabilities *out);

/* enumerate.c: a property that is a number or a struct of known size; a property that is a text.
 * ocl_device_extensions: CL_DEVICE_EXTENSIONS. The caller frees texts. */
clt_status ocl_device_ask(cl_device_id id, cl_device_info what, size_t size, void *out);
clt_status ocl_device_ask_text(cl_device_id id, cl_device_info what, char **out);
/* pci.c: the device's place on the PCI bus, "" if the driver does not report it. */
void ocl_device_ask_pci(cl_device_id id, char *out, size_t size);
clt_status ocl_device_extensions(cl_device_id id, char **out);
/* quirks.c: fills desc->quirks from the table. */
void ocl_apply_quirks(ocl_device_desc *desc);

/* fill.c: enqueues a fill with a 32-bit pattern, or a byte fill when `bytes` or `offset` is not a multiple
 * of 4 (then all bytes of the pattern must be equal). */
clt_status ocl_enqueue_fill(ocl_device *device, cl_command_queue queue, cl_mem mem, uint64_t offset,
                            uint64_t bytes, uint32_t pattern, cl_event *done);
/* Global size of a fill kernel for `count` elements. */
size_t ocl_fill_items(uint64_t count);

#endif
