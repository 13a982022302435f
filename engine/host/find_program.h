/* SPDX-License-Identifier: Apache-2.0
 *
 * Where programs are: the cltrain program itself, which child processes run, and programs by their names. */
#ifndef ENGINE_HOST_FIND_PROGRAM_H
#define ENGINE_HOST_FIND_PROGRAM_H

#include "engine/base/status.h"

/* The path of the cltrain program, for children. In this order: $CLTRAIN_PROGRAM; this process itself, when
 * clt_program_is_this was called; "cltrain" beside the file that holds this library, one folder up, or in
 * ../bin; the place where it is installed. CLT_EUNSUPPORTED when there is none. Free with free(). */
clt_status clt_program_find(char **out);
/* To be called by the main function of the cltrain program: children then run the program of this
 * process. */
void clt_program_is_this(void);

/* Like a shell: a name with a slash is a path; any other is looked for in the folders of PATH that are
 * absolute. CLT_EUNSUPPORTED: no file of that name may be run. Free with free(). */
clt_status clt_program_named(const char *name, char **out);

#endif
