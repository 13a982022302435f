/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays NVIDIA's library NVML for the tests of monitoring: one GPU at 00000000:65:00.0 whose figures are
 * known. Its energy counter grows by 100 J with each question, so that nothing depends on time. Built once
 * for each KIND:
 *
 *   KIND_all      every function that cltrain asks for; an error of the device (Xid 79) is reported once
 *   KIND_old      only the names of older drivers
 *   KIND_none     every question is answered by "not supported" (3)
 *   KIND_lost     the GPU is lost (15)
 *   KIND_hang     the question for the power never returns
 *   KIND_struct   newer structures are refused (25); older functions answer
 *   KIND_mismatch the library and the driver are of different versions (18) */
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum {
    OK = 0,
    ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    NO_EVENT = 10,
    LOST = 15,
    MISMATCH = 18,
    STRUCT = 25
};

#if KIND_none
#define ANSWER NOT_SUPPORTED
#elif KIND_lost
#define ANSWER LOST
#else
#define ANSWER OK
#endif
#if KIND_struct
#define ANSWER_2 STRUCT
#else
#define ANSWER_2 ANSWER
#endif

static int gpu; /* whose address is the handle */

/* Writes a value if the question is for the GPU. */
#define TELL(out, value)                                                                                     \
    do {                                                                                                     \
        if (device != &gpu)                                                                                  \
            return ARGUMENT;                                                                                 \
        if (ANSWER == OK)                                                                                    \
            *(out) = (value);                                                                                \
        return ANSWER;                                                                                       \
    } while (0)

static int begin(void)
{
#if KIND_mismatch
    return MISMATCH;
#else
    return OK;
#endif
}

static int find(const char *address, void **device)
{
    if (strcmp(address, "00000000:65:00.0") != 0)
        return NOT_FOUND;
    *device = &gpu;
    return OK;
}

typedef struct shares {
    unsigned gpu, memory;
} shares;
API int nvmlDeviceGetUtilizationRates(void *device, shares *out);
API int nvmlDeviceGetUtilizationRates(void *device, shares *out)
{
    const shares value = {37, 21};
    TELL(out, value);
}

typedef struct memory_1 {
    unsigned long long total, free, used;
} memory_1;
API int nvmlDeviceGetMemoryInfo(void *device, memory_1 *out);
API int nvmlDeviceGetMemoryInfo(void *device, memory_1 *out)
{
    const memory_1 value = {85899345920ULL, 84000000000ULL, 1899345920ULL};
    TELL(out, value);
}

API int nvmlDeviceGetPowerUsage(void *device, unsigned *out);
API int nvmlDeviceGetPowerUsage(void *device, unsigned *out)
{
#if KIND_hang
    for (;;)
        pause();
#endif
    TELL(out, 312500);
}

API int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *out);
API int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *out)
{
    TELL(out, 700000);
}

API int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out);
API int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out)
{
    if (sensor != 0)
        return ARGUMENT;
    TELL(out, 63);
}

API int nvmlDeviceGetClockInfo(void *device, int type, unsigned *out);
API int nvmlDeviceGetClockInfo(void *device, int type, unsigned *out)
{
    TELL(out, type == 1 ? 1755 : type == 2 ? 2619 : 1);
}

API int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *out);
API int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *out)
{
    if (counter != 0)
        return ARGUMENT;
    TELL(out, kind == 0 ? 3 : 0);
}

#if KIND_old
API int nvmlInit(void);
API int nvmlInit(void)
{
    return begin();
}

API int nvmlDeviceGetHandleByPciBusId(const char *address, void **device);
API int nvmlDeviceGetHandleByPciBusId(const char *address, void **device)
{
    return find(address, device);
}

API int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out);
API int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out)
{
    TELL(out, 0x4ULL);
}
#else
API int nvmlInit_v2(void);
API int nvmlInit_v2(void)
{
    return begin();
}

API int nvmlShutdown(void);
API int nvmlShutdown(void)
{
    return OK;
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device);
API int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device)
{
    return find(address, device);
}

API int nvmlDeviceGetName(void *device, char *name, unsigned size);
API int nvmlDeviceGetName(void *device, char *name, unsigned size)
{
    static const char own[] = "Test GPU 80GB";
    if (device != &gpu || size < sizeof own)
        return ARGUMENT;
    memcpy(name, own, sizeof own);
    return OK;
}

API int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *out);
API int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *out)
{
    TELL(out, 0x1ULL | 0x20ULL);
}

typedef struct memory_2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_2;
API int nvmlDeviceGetMemoryInfo_v2(void *device, memory_2 *out);
API int nvmlDeviceGetMemoryInfo_v2(void *device, memory_2 *out)
{
    const memory_2 value = {0x02000028U, 85899345920ULL, 600000000ULL, 84000000000ULL, 1299345920ULL};
    if (out->version != 0x02000028U || ANSWER_2 == STRUCT)
        return STRUCT;
    TELL(out, value);
}

typedef struct heat {
    unsigned version, sensor;
    int celsius;
} heat;
API int nvmlDeviceGetTemperatureV(void *device, heat *out);
API int nvmlDeviceGetTemperatureV(void *device, heat *out)
{
    const heat value = {0x0100000CU, 0, 64};
    if (out->version != 0x0100000CU || ANSWER_2 == STRUCT)
        return STRUCT;
    TELL(out, value);
}

API int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *out);
API int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *out)
{
    static unsigned long long mj = 5000000ULL;
    mj += 100000ULL;
    TELL(out, mj);
}

API int nvmlDeviceGetPcieThroughput(void *device, int counter, unsigned *out);
API int nvmlDeviceGetPcieThroughput(void *device, int counter, unsigned *out)
{
    TELL(out, counter == 0 ? 1500 : 2500);
}

API int nvmlDeviceGetPcieReplayCounter(void *device, unsigned *out);
API int nvmlDeviceGetPcieReplayCounter(void *device, unsigned *out)
{
    TELL(out, 2);
}

/* --- events --- */

static int events, told;

API int nvmlEventSetCreate(void **out);
API int nvmlEventSetCreate(void **out)
{
    *out = &events;
    return ANSWER;
}

API int nvmlEventSetFree(void *set);
API int nvmlEventSetFree(void *set)
{
    return set == &events ? OK : ARGUMENT;
}

API int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
API int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    return device == &gpu && types == 8 && set == &events ? ANSWER : ARGUMENT;
}

typedef struct event {
    void *device;
    unsigned long long type, data;
    unsigned instance, compute_instance;
} event;
API int nvmlEventSetWait_v2(void *set, event *out, unsigned ms);
API int nvmlEventSetWait_v2(void *set, event *out, unsigned ms)
{
    const event xid = {&gpu, 8, 79, 0, 0};
    if (set != &events || ms != 0)
        return ARGUMENT;
    if (told)
        return NO_EVENT;
    told = 1;
    *out = xid;
    return OK;
}
#endif
