/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `cltrain data` for images: packing a folder, showing samples, checking every image. */
#ifndef CLI_DATA_DATA_IMAGES_H
#define CLI_DATA_DATA_IMAGES_H

#include "cli/screen/cmd.h"
#include "engine/config/config.h"
#include "engine/data/data.h"
#include "engine/data/images/image_pack.h"

/* argv[0] is "show". */
clt_status data_show(cmd_context *context, int argc, char **argv);

/* Packs a folder, shows progress, and prints which file was made and how to train on it. */
clt_status data_pack(const cmd_context *context, clt_pack_options *options);

/* Returns the error for a folder that `data verify` and `data show` do not support. */
clt_status data_refuse_folder(const char *folder, const char *command);
/* True if a path is a folder of images, a pack, an image or a folder of CIFAR. */
bool data_is_images(const char *path);
/* Makes a config for such a path, or loads the config if the path is a JSON file; with overrides. */
clt_status data_images_config(const char *path, const char *const *overrides, int n_overrides,
                              clt_config **out);
/* Loads the config at `path` with overrides. init: the folder or file of weights from which missing keys of
 * the config are filled in, as in training; NULL: none. */
clt_status data_load_config(const char *path, const char *const *overrides, int n_overrides, const char *init,
                            clt_config **out);
/* Refuses --init if the path is not a config. */
clt_status data_no_init(const char *path, const char *init);

/* Reads every sample with several threads. `bad` is called for each sample that cannot be read, in the order
 * of the samples, with the message as the thread's error; `progress` is called now and then, and its error
 * ends the check. */
typedef struct data_check {
    void (*bad)(void *context);
    clt_status (*progress)(void *context, int64_t done, int64_t total);
    void *context;
    int64_t good, n_bad;
} data_check;
clt_status data_check_samples(const clt_source *source, data_check *check);

#endif
