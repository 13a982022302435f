/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of driver_shim.c: what goes wrong according to CLT_SHIM, and in which calls. Makes no OpenCL
 * call. Hidden from the program under test, whose functions may have the same names. */
#ifndef TESTS_FAULT_DRIVER_SHIM_H
#define TESTS_FAULT_DRIVER_SHIM_H

#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

typedef enum call { BUILD, KERNEL, GROUP, LOCAL, LAUNCH, READ, CALL_COUNT } call;

typedef enum action {
    NOTHING,
    ABORT,
    SEGFAULT,
    HANG,
    ERROR,
    SILENT,
    LIMIT,
    UNDERSTATE,
    TIMES,
    DEAD,
    GARBAGE,
    GROUP_WRONG,
    FAR_WRONG,
    EVENT,
    IDLE,
    GROUPS,
    FLIP,
    NOT_A_NUMBER,
    ACTION_COUNT
} action;

/* The objects of a call. */
typedef struct subject {
    const char *family, *kernel, *options, *source;
    size_t length, bytes;
    size_t threads; /* that are in clBuildProgram now */
} subject;

/* Ends the process with a message: the variable contains a rule that is not valid. */
void shim_stop(const char *what, const char *text);
/* Reads CLT_SHIM, once. None of these functions may be called by two threads at the same time. */
void shim_read_rules(void);
/* Counts the call and returns the action for it, with the action's number. */
action shim_judge(call c, const subject *s, double *value);
/* The smallest limit that rules give for this kernel; does not count a call. */
size_t shim_limit_of(const subject *s);
/* The name that platforms must report; NULL: their own. */
const char *shim_platform(void);
/* The name that the device with this index on its platform must report; false: its own name. */
bool shim_device_name(unsigned place, char *name, size_t size);
/* Memory is refused for larger buffers, in bytes, and the device does not report this limit; SIZE_MAX: no
 * limit. */
size_t shim_memory(void);
/* The size of the largest buffer in bytes, which the device reports; SIZE_MAX: the device's own. */
size_t shim_largest_buffer(void);

/* Writes the text that makes a built-in function wrong, to be put before every program; "" and false:
 * none. */
bool shim_builtin(char *text, size_t size);

/* driver_shim_spoil.c: a buffer of a kernel, with its contents before the launch. */
typedef struct shim_copy {
    cl_mem id;
    size_t bytes;
    uint32_t *words;
} shim_copy;
/* The contents of the buffer now; free() them. */
uint32_t *shim_contents(cl_command_queue queue, const shim_copy *copy);
/* Gives wrong values to words that have changed since the launch: GARBAGE, GROUP_WRONG (in a launch of
 * `groups` groups) or FAR_WRONG. */
void shim_spoil(cl_command_queue queue, const shim_copy *copy, action how, double value, size_t groups);

#pragma GCC visibility pop
#endif
