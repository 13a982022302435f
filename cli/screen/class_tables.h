/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables about classes for the terminal: metrics of each class, and the confusion matrix. */
#ifndef CLI_SCREEN_CLASS_TABLES_H
#define CLI_SCREEN_CLASS_TABLES_H

#include "engine/report/write/class_counts.h"

/* Appends a line for each class; if there are more than twenty, only for the twenty with the lowest F1. Then
 * appends the confusion matrix if there are at most twenty classes and it fits into `columns` (0: no limit);
 * otherwise names the option that writes it to a file. */
void class_tables(const clt_class_counts *counts, int columns, clt_str *out);

#endif
