/* SPDX-License-Identifier: Apache-2.0
 *
 * TensorBoard's event file: records of a length, its checksum, an Event message, and that one's checksum.
 * Records wait in memory and are written about once a second; a file that was cut anywhere is read up to its
 * last whole record. One thread at a time. */
#ifndef ENGINE_REPORT_TFEVENTS_H
#define ENGINE_REPORT_TFEVENTS_H

#include "engine/base/mem.h"

#define CLT_TFEVENTS_SECONDS 1.0         /* between two writes */
#define CLT_TFEVENTS_BYTES (256u << 10)  /* that wait at most while the file can be written */
#define CLT_TFEVENTS_WAITING (16u << 20) /* and while it cannot */

typedef struct clt_tfevents clt_tfevents;

/* Makes "events.out.tfevents.SECONDS.HOST.PID.0" in the folder, whose name sorts behind those of all event
 * files that are there: TensorBoard reads them in this order. Its first record, the version, waits.
 * CLT_ESTORAGE, CLT_ENOMEM. */
clt_status clt_tfevents_create(const char *folder, clt_tfevents **out);
/* Writes what waits, as far as that is possible. NULL is fine. */
void clt_tfevents_close(clt_tfevents *file);
const char *clt_tfevents_path(const clt_tfevents *file);

/* Takes a serialised Event (clt_pb_message's rules); written now when the last write was long ago. */
void clt_tfevents_add(clt_tfevents *file, clt_str *event);
/* Writes now. A file that cannot be written is no error: what waits stays, up to CLT_TFEVENTS_WAITING bytes,
 * and records beyond that are lost. */
void clt_tfevents_flush(clt_tfevents *file);
/* The first thing that went wrong, once; false: nothing new. */
bool clt_tfevents_trouble(clt_tfevents *file, char *text, size_t size);

/* Wraps a message as a record, which is appended. */
void clt_tfevents_record(clt_str *out, const void *message, size_t size);

#endif
