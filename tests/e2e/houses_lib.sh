# SPDX-License-Identifier: Apache-2.0
#
# A table of house prices like the one that courses use: seven columns of numbers, one of which has blank cells, one of words with blank
# cells, and the price. It is the same on every machine: random numbers are those of Park and Miller. Sourced, never run.

# houses ROWS: the table with its header.
houses() {
    awk -v rows="$1" '
        function uniform() { seed = seed * 16807 % 2147483647; return seed / 2147483647 }
        function normal() { return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()) }
        BEGIN {
            seed = 20261128
            print "longitude,latitude,housing_median_age,total_rooms,total_bedrooms,population,median_income,ocean_proximity,median_house_value"
            for (i = 0; i < rows; i++) {
                east = -124 + 10 * uniform(); north = 32.5 + 9.5 * uniform(); age = 1 + int(51 * uniform())
                rooms = int(exp(7.6 + 0.6 * normal())); bedrooms = int(rooms * (0.15 + 0.1 * uniform())); people = int(rooms * (0.3 + 0.5 * uniform()))
                income = int(1e4 * exp(1.2 + 0.45 * normal())) / 1e4
                away = (east > -122 ? east + 122 : -122 - east) + (north > 37 ? north - 37 : 37 - north)
                u = uniform()
                place = east > -118 ? "INLAND" : away < 2.5 ? "NEAR BAY" : u < 0.5 ? "<1H OCEAN" : "NEAR OCEAN"
                price = 40000 * income + 15000 * sin(north) * income - 3000 * away + 600 * age + 20 * bedrooms - 5 * people + 30000 * normal()
                price += place == "INLAND" ? -30000 : place == "NEAR BAY" ? 90000 : place == "<1H OCEAN" ? 40000 : 60000
                if (price < 15000) price = 15000
                printf "%.2f,%.2f,%d,%d,%s,%d,%.4f,%s,%d\n", east, north, age, rooms, uniform() < 0.05 ? "" : bedrooms, people, income,
                    uniform() < 0.02 ? "" : place, price
            }
        }'
}

# houses_config: the config of the bar; everything but data and length has its default.
houses_config() {
    cat <<'JSON'
{"model": {"type": "mlp", "hidden": [64, 64], "loss": "mse"},
 "data": {"type": "csv", "path": "train.csv", "eval_path": "test.csv", "target": "median_house_value"},
 "train": {"epochs": 30, "log_every": 500}}
JSON
}
