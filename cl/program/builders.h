/* SPDX-License-Identifier: Apache-2.0
 *
 * Building programs in child processes. Some drivers' compilers hold one lock for the whole process, so that
 * threads only wait for each other (OCL_QUIRK_SERIAL_BUILDS); the driver or we (cl/program/program_cache.c)
 * keep their results on disk. So children compile, several at a time, and this process takes the results
 * from the cache. A compiler that crashes ends only a child; this process sees a program that does not
 * build. PoCL does most of its compiling at a kernel's first launch, so children launch one group of each
 * kernel, on memory of their own. This file must not know what is built. */
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
    bool ahead;          /* for an executor that is created later, which then reports a failure */
    clt_status *outcome; /* gets the status of the build, CLT_OK if none was needed; may be NULL */
} ocl_program_request;

typedef struct ocl_builder ocl_builder; /* one child process */

/* Whether builds by child processes help this process: if the driver builds serially, and the results are
 * kept in a cache. */
bool ocl_builders_help(const ocl_device *device);
/* Starts a child, which ends with the thread that starts it. CLT_EUNSUPPORTED when no child can be
 * started. */
clt_status ocl_builder_start(const ocl_device *device, ocl_builder **out);
void ocl_builder_stop(ocl_builder *builder);
/* Has the child build the program and run its launches. CLT_EBUILD: the compiler crashed the child or did
 * not return; the message names the program, and the builder cannot be used any more. CLT_OK in all other
 * cases, even if the build failed in the child: this process will then get the same failure. *usable false:
 * start another builder. */
clt_status ocl_builder_build(ocl_builder *builder, const ocl_program_request *request, bool *usable);

/* Starts a child that reads lines about the device `spec`: questions (cl/probes/asking.h), or what to build.
 * It ends with the thread that starts it. CLT_EUNSUPPORTED when no child can be started. */
struct clt_child;
clt_status ocl_device_child_start(const char *spec, struct clt_child **out);

/* Keeps a child that has answered the questions about a device as the device's next builder, since it has
 * already loaded the driver's compiler. key: ocl_capabilities_key with the style ASKED. ocl_builders_forget
 * ends all waiting children, as does closing any device. A child ends with the thread that started it, so
 * the same thread must open the device. */
void ocl_builders_adopt(uint64_t key, struct clt_child *child);
void ocl_builders_forget(void);

/* The child's side: builds programs as read from standard input, until that ends. */
clt_status ocl_builder_serve(ocl_device *device);

#endif
