/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples what the driver and the kernel measure about a device and its host: power, memory, temperature. A
 * thread takes the samples, and the caller fetches the figures since its previous call; it never waits for a
 * driver. Values that a source does not have are NAN. Knows nothing of training. */
#ifndef ENGINE_MONITOR_MONITOR_H
#define ENGINE_MONITOR_MONITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/scope.h"
#include "engine/base/status.h"

/* How the samples of an interval become one number. */
typedef enum clt_monitor_fold { CLT_MONITOR_MEAN, CLT_MONITOR_MOST, CLT_MONITOR_LAST } clt_monitor_fold;

/* X(name, key in metrics.jsonl, tag in TensorBoard's file, name for Prometheus, fold, parts, meaning). The
 * number is rounded to a multiple of 1 / parts; parts is 0: not rounded. A name for Prometheus that ends
 * with _total is a counter, which only grows. */
#define CLT_MONITOR_LINE_MAP(X)                                                                              \
    X(UTILIZATION, "device_utilization", "device/utilization", "device_utilization_ratio", MEAN, 1e4,        \
      "Share of the time in which the device ran anything, as its driver counts it.")                        \
    X(MEMORY_USED, "device_memory_used", "device/memory_used", "device_memory_used_bytes", MOST, 0,          \
      "Memory of the device that is in use: by all programs; on Intel's devices by this process only.")      \
    X(POWER, "device_power_w", "device/power_w", "device_power_watts", MEAN, 1e3,                            \
      "Power that the device takes.")                                                                        \
    X(TEMPERATURE, "device_temperature_c", "device/temperature_c", "device_temperature_celsius", MOST, 1e3,  \
      "Temperature of the device.")                                                                          \
    X(MEMORY_TEMPERATURE, "device_memory_temperature_c", "device/memory_temperature_c",                      \
      "device_memory_temperature_celsius", MOST, 1e3, "Temperature of the device's memory.")                 \
    X(CLOCK, "device_clock_hz", "device/clock_hz", "device_clock_hertz", MEAN, 1,                            \
      "Clock of the device's compute units.")                                                                \
    X(MEMORY_CLOCK, "device_memory_clock_hz", "device/memory_clock_hz", "device_memory_clock_hertz", MEAN,   \
      1, "Clock of the device's memory.")                                                                    \
    X(THROTTLED, "device_throttled", "device/throttled", "device_throttled_ratio", MEAN, 1e4,                \
      "Share of the time in which the device was slowed down, for power, heat or a quota.")                  \
    X(THROTTLED_HEAT, "device_throttled_heat", "device/throttled_heat", "device_throttled_heat_ratio", MEAN, \
      1e4, "Share of the time in which the device was slowed down for heat.")                                \
    X(ECC_CORRECTED, "device_ecc_corrected", "device/ecc_corrected", "device_ecc_corrected_errors_total",    \
      LAST, 0, "Errors of memory that the device has corrected since its driver was loaded.")                \
    X(ECC_UNCORRECTED, "device_ecc_uncorrected", "device/ecc_uncorrected",                                   \
      "device_ecc_uncorrected_errors_total", LAST, 0,                                                        \
      "Errors of memory that the device could not correct since its driver was loaded.")                     \
    X(PCIE_RX, "device_pcie_rx_bytes_per_s", "device/pcie_rx_bytes_per_s",                                   \
      "device_pcie_receive_bytes_per_second", MEAN, 1, "Bytes in a second to the device over PCIe.")         \
    X(PCIE_TX, "device_pcie_tx_bytes_per_s", "device/pcie_tx_bytes_per_s",                                   \
      "device_pcie_send_bytes_per_second", MEAN, 1, "Bytes in a second from the device over PCIe.")          \
    X(PCIE_REPLAYS, "device_pcie_replays", "device/pcie_replays", "device_pcie_replays_total", LAST, 0,      \
      "Transfers over PCIe that had to be repeated.")                                                        \
    X(FAN, "device_fan_rpm", "device/fan_rpm", "device_fan_rpm", MEAN, 1,                                    \
      "Revolutions of the device's fan in a minute.")                                                        \
    X(HOST_CPU, "host_cpu", "host/cpu", "host_cpu_utilization_ratio", MEAN, 1e4,                             \
      "Share of the processor time that this host, or this control group, has used.")                        \
    X(HOST_MEMORY, "host_memory_used", "host/memory_used", "host_memory_used_bytes", MOST, 0,                \
      "Memory that this host, or this control group, uses, without the cache of files.")                     \
    X(HOST_THROTTLED, "host_cpu_throttled", "host/cpu_throttled", "host_cpu_throttled_ratio", MEAN, 1e4,     \
      "Share of the periods of the control group's quota in which it was held back.")
/* Constants of the device, and its energy so far; metrics.jsonl has the sum of the energy over all ranks
 * instead. */
#define CLT_MONITOR_OTHER_MAP(X)                                                                             \
    X(MEMORY_SIZE, NULL, NULL, "device_memory_size_bytes", LAST, 0, "Memory of the device.")                 \
    X(POWER_LIMIT, NULL, NULL, "device_power_limit_watts", LAST, 0,                                          \
      "Power to which the driver limits the device.")                                                        \
    X(ENERGY, NULL, NULL, "device_energy_joules_total", LAST, 0,                                             \
      "Energy that the device has taken since this session began.")
#define CLT_MONITOR_MAP(X)                                                                                   \
    CLT_MONITOR_LINE_MAP(X)                                                                                  \
    CLT_MONITOR_OTHER_MAP(X)

typedef enum clt_monitor_figure {
#define CLT_MONITOR_ENUM(name, ...) CLT_MONITOR_##name,
    CLT_MONITOR_MAP(CLT_MONITOR_ENUM)
#undef CLT_MONITOR_ENUM
        CLT_MONITOR_COUNT
} clt_monitor_figure;

typedef struct clt_monitor_options {
    const char *pci;  /* the device's PCI address, "0000:3b:00.0"; "": unknown, or the device is a CPU */
    bool cpu;         /* the device is the host's processor */
    double seconds;   /* between two samples */
    const char *root; /* prefix of /proc and the folders of control groups: "", or a test's folder */
} clt_monitor_options;

/* One figure over an interval; NAN, and no samples, if the source does not have it. */
typedef struct clt_monitor_span {
    int64_t samples;
    double mean, least, most, last;
} clt_monitor_span;

/* The source of the device's figures. */
typedef struct clt_monitor_facts {
    const char *source; /* "nvml", "amdgpu", "i915", "xe", "cpu"; NULL: none */
    char name[96];      /* the source's name for the device; "": it gives none */
    char pci[16];
} clt_monitor_facts;

typedef struct clt_monitor clt_monitor;

/* Starts the thread, which finds the device's source and takes the first sample immediately. The options are
 * copied. */
clt_status clt_monitor_open(const clt_monitor_options *options, clt_monitor **out);
/* Ends the thread. A thread that hangs in a driver's call is abandoned after a quarter of a second. NULL is
 * fine. */
void clt_monitor_close(clt_monitor *monitor);
CLT_SCOPED_POINTER(clt_monitor, clt_monitor_close)

/* `monitor` may be NULL in the functions below: they then have no figures. None of them waits for a driver.
 *
 * The figures of the samples since the previous call, each combined by its fold. False: there was no
 * sample. */
bool clt_monitor_take(clt_monitor *monitor, double value[CLT_MONITOR_COUNT]);
/* The figures over all samples so far. False: there was no sample. */
bool clt_monitor_spans(clt_monitor *monitor, clt_monitor_span span[CLT_MONITOR_COUNT]);
/* False: the source is not known yet. */
bool clt_monitor_facts_of(clt_monitor *monitor, clt_monitor_facts *out);
/* Has the thread take one more sample; waits at most `seconds` for it. */
void clt_monitor_freshen(clt_monitor *monitor, double seconds);
/* The next error of the device that NVIDIA's driver has reported: its number (Xid), and the time of clt_now
 * when it was noticed. False: there is no more. */
bool clt_monitor_take_xid(clt_monitor *monitor, int *xid, double *at);
/* True once, with a line for the user, if the source that should know the device gives no figures: the line
 * says why. */
bool clt_monitor_take_trouble(clt_monitor *monitor, char *line, size_t size);

/* Lists the devices of this host that a source knows, at most `most`, and returns their number. The
 * processor is always the last one. Calls the drivers in the calling thread. */
typedef struct clt_monitor_device {
    const char *source;
    char pci[16]; /* "" for the processor */
} clt_monitor_device;
int clt_monitor_list(clt_monitor_device *devices, int most);

/* Converts a PCI address with domain, as lspci or nvidia-smi prints it ("00000000:3B:00.0"), to the kernel's
 * form ("0000:3b:00.0"). False: the text is not such an address. */
bool clt_monitor_address(const char *text, char pci[16]);

#endif
