/* SPDX-License-Identifier: Apache-2.0
 *
 * Building programs in child processes. Some drivers' compilers hold one lock for the whole process, so that
 * threads only wait for each other (OCL_QUIRK_SERIAL_BUILDS); what they compile is kept on disk, by the
 * driver or by us (cl/command/program_cache.c). So children compile, several at a time, and this process
 * takes the results from the cache. A compiler that crashes ends a child: for this process it is a program
 * that does not build. PoCL compiles most at a kernel's first launch: there children launch one group of each
 * kernel, over memory of their own. It must not know what is built. */
#ifndef CL_BUILDERS_H
#define CL_BUILDERS_H

#include "cl/command/command.h"

/* Where a launch's tensors end: bytes from the argument's start to the end of the memory that it lies in. */
typedef uint64_t (*ocl_extent_fn)(void *context, const ocl_command *command, int argument);

/* A program, and commands that run kernels of it with code of their own each (ocl_same_code). */
typedef struct ocl_program_wish {
    const char *family, *options;       /* as for ocl_program_get */
    const ocl_command *const *launches; /* may be NULL */
    size_t n_launches;
    ocl_extent_fn extent;
    void *extent_context;
    bool ahead; /* of an executor that is created later and tells its failure then: none here */
} ocl_program_wish;

typedef struct ocl_builder ocl_builder; /* one child process */

/* Do children's builds help this process? They do where builds are serial and their results are kept. */
bool ocl_builders_help(const ocl_device *device);
/* The child ends with the thread that starts it. CLT_EUNSUPPORTED when there can be no child. */
clt_status ocl_builder_start(const ocl_device *device, ocl_builder **out);
void ocl_builder_stop(ocl_builder *builder);
/* Has the child build the program and run its launches. CLT_EBUILD: the compiler ended the child or did not
 * come back; the message names the program, and the builder is of no further use. CLT_OK in all other cases,
 * the child's failure among them: this process then meets it by itself. *usable false: start another one. */
clt_status ocl_builder_build(ocl_builder *builder, const ocl_program_wish *wish, bool *usable);

/* A child that has asked a device, which has this key (ocl_answers_key, style asked), waits to be the next
 * builder for it, since the driver's compiler is loaded there. ocl_builders_forget ends all that wait, as
 * does closing any device. It ends with the thread that started it, which is then the one that opens the
 * device. */
struct clt_child;
void ocl_builders_adopt(uint64_t key, struct clt_child *child);
void ocl_builders_forget(void);

/* The child's side, for the program's hidden command: builds what it is told for the device `spec` until its
 * standard input ends. */
clt_status ocl_builder_serve(const char *spec);
/* The same for a child that has asked, and may be told to ask again. */
struct ocl_asker;
clt_status ocl_builder_go_on(struct ocl_asker *asker);

#endif
