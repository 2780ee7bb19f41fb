# cmake -DSOURCE_DIR=<redlatch> -DOUTPUT=<keeper_scripts.h> -P embed_keeper.cmake
#
# Writes the header that holds the keeper of embedded servers: a shell script, and the Lua by which it
# asks the server whether it is still in use. The build includes this file.
cmake_minimum_required(VERSION 3.22)
file(READ "${SOURCE_DIR}/src/redis/embedded/keeper.sh" keeper_script)
file(READ "${SOURCE_DIR}/src/redis/embedded/census.lua" census_script)
configure_file("${SOURCE_DIR}/src/redis/embedded/keeper_scripts.h.in" "${OUTPUT}" @ONLY)
