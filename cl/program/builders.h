/* SPDX-License-Identifier: Apache-2.0
 *
 * Building programs in child processes. Some drivers' compilers hold one lock for the whole process, so that
 * threads only wait for each other (OCL_QUIRK_SERIAL_BUILDS). The driver or cltrain
 * (cl/program/program_cache.c) stores the results on disk. So children compile, several at a time, and this
 * process takes the results from this cache. A compiler that crashes ends only a child; this process sees a
 * program that does not build. PoCL does most of its compiling at a kernel's first launch, so children also
 * launch each kernel, on their own memory. This file must not know what is built. */
#ifndef CL_PROGRAM_BUILDERS_H
#define CL_PROGRAM_BUILDERS_H

#include "cl/command/command.h"

/* Number of bytes from the start of a launch's tensor argument to the end of its buffer. */
typedef uint64_t (*ocl_extent_fn)(void *context, const ocl_command *command, int argument);

/* A program to build, and commands to launch with it, one for each variant of machine code
 * (ocl_same_code). */
typedef struct ocl_program_request {
    const char *family, *options;       /* as for ocl_program_get */
    const ocl_command *const *launches; /* may be NULL */
    size_t n_launches;
    ocl_extent_fn extent;
    void *extent_context;
    bool ahead;          /* for an executor that is created later and then reports a failure */
    clt_status *outcome; /* gets the status of the build, CLT_OK if none was needed; may be NULL */
} ocl_program_request;

typedef struct ocl_builder ocl_builder; /* a builder is one child process */

/* Whether child processes speed up building: the driver must build serially, and a cache must store the
 * results. */
bool ocl_builders_help(const ocl_device *device);
/* Starts a child, which ends with the thread that starts it. CLT_EUNSUPPORTED when no child can be
 * started. */
clt_status ocl_builder_start(const ocl_device *device, ocl_builder **out);
void ocl_builder_stop(ocl_builder *builder);
/* Makes the child build the program and run its launches. CLT_EBUILD: the compiler crashed the child or did
 * not return; the message names the program, and the builder cannot be used any more. CLT_OK in all other
 * cases, even if the build failed in the child, because this process will then get the same failure. *usable
 * false: another builder must be started. */
clt_status ocl_builder_build(ocl_builder *builder, const ocl_program_request *request, bool *usable);

/* Starts a child that reads lines about the device `spec`: questions (cl/probes/asking.h), or what to build.
 * It ends with the thread that starts it. CLT_EUNSUPPORTED when no child can be started. */
struct clt_child;
clt_status ocl_device_child_start(const char *spec, struct clt_child **out);

/* Keeps a child that has answered the questions about a device as the device's next builder, because it has
 * already loaded the driver's compiler. key: ocl_capabilities_key with the style ASKED. ocl_builders_forget
 * ends all waiting children; closing any device does too. A child ends with the thread that started it, so
 * the same thread must open the device. */
void ocl_builders_adopt(uint64_t key, struct clt_child *child);
void ocl_builders_forget(void);

/* The child's side: builds the programs that it reads from standard input, until this ends. */
clt_status ocl_builder_serve(ocl_device *device);

#endif
