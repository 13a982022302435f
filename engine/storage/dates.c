/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the two forms of dates in answers. Months have English names, whatever the locale. */
#include "engine/storage/dates.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static bool make(struct tm *parts, int64_t *out)
{
    bool good = parts->tm_year >= 1970 && parts->tm_mon >= 1 && parts->tm_mon <= 12 && parts->tm_mday >= 1 &&
                parts->tm_mday <= 31 && parts->tm_hour < 24 && parts->tm_min < 60 && parts->tm_sec <= 60;
    parts->tm_year -= 1900;
    parts->tm_mon--;
    if (good)
        *out = (int64_t)timegm(parts);
    return good;
}

bool clt_date_iso(const char *text, int64_t *out)
{
    struct tm t = {0};
    int length = 0;
    int n = sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour,
                   &t.tm_min, &t.tm_sec, &length);
    if (n != 6)
        return false;
    const char *rest = text + length;
    if (*rest == '.')
        rest += 1 + strspn(rest + 1, "0123456789");
    int hours = 0, minutes = 0, end = 0;
    bool ahead = *rest == '+';
    if ((ahead || *rest == '-') && (sscanf(rest + 1, "%2d:%2d%n", &hours, &minutes, &end) == 2 ||
                                    sscanf(rest + 1, "%2d%2d%n", &hours, &minutes, &end) == 2))
        rest += 1 + end;
    else if (strcmp(rest, "Z") == 0)
        rest++;
    else
        return false;
    if (*rest || hours < 0 || hours > 23 || minutes < 0 || minutes > 59 || !make(&t, out))
        return false;
    *out -= (ahead ? 60 : -60) * (60 * (int64_t)hours + minutes);
    return true;
}

bool clt_date_http(const char *text, int64_t *out)
{
    static const char months[] = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec ";
    struct tm t = {0};
    char month[5] = "";
    const char *comma = strchr(text, ',');
    if (!comma || sscanf(comma + 1, " %2d %3s %4d %2d:%2d:%2d GMT", &t.tm_mday, month, &t.tm_year, &t.tm_hour,
                         &t.tm_min, &t.tm_sec) != 6)
        return false;
    const char *at = strlen(month) == 3 ? strstr(months, month) : NULL;
    t.tm_mon = at ? (int)(at - months) / 4 + 1 : 0;
    return make(&t, out);
}
