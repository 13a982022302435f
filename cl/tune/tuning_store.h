/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning records on disk: one file per device with driver in a private folder of the user's cache, and sets
 * that ship inside the program (cl/params). A file is used only if it is undamaged and belongs to this
 * device, driver and kernels; otherwise it is ignored with a warning, and replaced when something is next
 * measured. */
#ifndef CL_TUNE_TUNING_STORE_H
#define CL_TUNE_TUNING_STORE_H

#include "cl/kernels/kernel_source.h"
#include "cl/tune/tuning.h"

/* The folder: $CLTRAIN_CACHE_DIR/tuning, else $XDG_CACHE_HOME/cltrain/tuning, else
 * $HOME/.cache/cltrain/tuning. CLT_ESTORAGE when none of the three variables is set. Free with free(). */
clt_status ocl_tuning_folder(char **out);
/* The path of a device's file in this folder. Free with free(). */
clt_status ocl_tuning_path(const ocl_device_desc *device, char **out);

/* ocl_tuning_load: reads the records of this device; records on disk take precedence over shipped ones. The
 * set is empty if there are none. Fails only for lack of memory. */
clt_status ocl_tuning_load(const ocl_device_desc *device, ocl_tuning **out);
/* ocl_tuning_save: adds records to the device's file, and replaces records of the same problems. The folder
 * is made with mode 0700; a rename replaces the file; processes that save at the same time take turns.
 * CLT_ESTORAGE. */
clt_status ocl_tuning_save(const ocl_device_desc *device, const ocl_tuning *records);
/* Removes the device's file; *removed becomes true if there was one. */
clt_status ocl_tuning_clear(const ocl_device_desc *device, bool *removed);

/* Calls fn for each file of the folder, with its set or, if `tuning` is NULL, with the reason why it cannot
 * be read. CLT_ESTORAGE: the folder is not private, so no file in it is used. */
typedef void (*ocl_tuning_file_fn)(void *context, const char *path, const ocl_tuning *tuning, int outdated,
                                   const char *defect);
clt_status ocl_tuning_list(ocl_tuning_file_fn fn, void *context);

/* Sets that ship with the program: the files of cl/params; ends with a NULL name. They may have "*" as
 * driver and 0 as compute units (any), and "*" as hash of a family. */
extern const ocl_embedded_source ocl_embedded_params[];
/* Adds the records of all sets of the table that fit the device. A set that cannot be read is reported. */
clt_status ocl_tuning_add_shipped(ocl_tuning *tuning, const ocl_device_desc *device,
                                  const ocl_embedded_source *table);

#endif
