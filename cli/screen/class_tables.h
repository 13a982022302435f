/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables about classes for the terminal: figures of each class, and the confusion matrix. */
#ifndef CLI_SCREEN_CLASS_TABLES_H
#define CLI_SCREEN_CLASS_TABLES_H

#include "engine/report/write/class_counts.h"

/* Appends a line for each class, of many classes the twenty with the lowest F1; and the confusion matrix where it has at most
 * twenty classes and fits the screen (columns; 0: no limit), else where to get it. */
void class_tables(const clt_class_counts *counts, int columns, clt_str *out);

#endif
