/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the folder of an export, which appears complete or not at all: it is written beside its place under
 * another name, every file is synced, and it is renamed. Does not know its content. */
#ifndef ENGINE_PRETRAINED_NEW_FOLDER_H
#define ENGINE_PRETRAINED_NEW_FOLDER_H

#include "engine/base/mem.h"

/* Checks that the folder can be created. CLT_EUSAGE: it is not empty, or it is inside a checkpoint. */
clt_status clt_new_folder_place(const char *folder);
/* Makes the folder: `write` fills it under its temporary name. Nothing is left after a failure. */
clt_status clt_new_folder(const char *folder, clt_status (*write)(void *context, const char *temporary),
                          void *context);
/* Writes a file of the folder: the text and a line break. */
clt_status clt_new_folder_text(const char *folder, const char *name, clt_str *text);

#endif
