/* SPDX-License-Identifier: Apache-2.0
 *
 * TensorBoard's event file. A record consists of a length and its checksum, an Event message and its
 * checksum. Records wait in memory and are written about once a second. Readers of a truncated file get its
 * complete records. Only one thread may call at a time. */
#ifndef ENGINE_REPORT_WRITE_TFEVENTS_H
#define ENGINE_REPORT_WRITE_TFEVENTS_H

#include "engine/base/mem.h"

#define CLT_TFEVENTS_SECONDS 1.0         /* between two writes */
#define CLT_TFEVENTS_BYTES (256u << 10)  /* most bytes that wait while the file can be written */
#define CLT_TFEVENTS_WAITING (16u << 20) /* most bytes that wait while it cannot */

typedef struct clt_tfevents clt_tfevents;

/* Creates "events.out.tfevents.SECONDS.HOST.PID.0" in the folder. Its name sorts after the names of all event
 * files there, because TensorBoard reads files in the order of their names. Its first record, the version,
 * waits to be written. CLT_ESTORAGE, CLT_ENOMEM. */
clt_status clt_tfevents_create(const char *folder, clt_tfevents **out);
/* Writes the waiting records, if that is possible, and closes the file. NULL is allowed. */
void clt_tfevents_close(clt_tfevents *file);
CLT_SCOPED_POINTER(clt_tfevents, clt_tfevents_close)
const char *clt_tfevents_path(const clt_tfevents *file);

/* Adds a serialised Event and empties the string (as clt_pb_message does). Writes the waiting records if the
 * last write was more than CLT_TFEVENTS_SECONDS ago. */
void clt_tfevents_add(clt_tfevents *file, clt_str *event);
/* Writes now. If the file cannot be written, this is no error: up to CLT_TFEVENTS_WAITING bytes remain
 * waiting, and further records are lost. */
void clt_tfevents_flush(clt_tfevents *file);
/* Copies the description of the first problem to `text`, once; false: there is no new problem. */
bool clt_tfevents_trouble(clt_tfevents *file, char *text, size_t size);

/* Appends a message wrapped as a record. */
void clt_tfevents_record(clt_str *out, const void *message, size_t size);

#endif
