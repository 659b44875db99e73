# Builds the consumer project with Spool as a part of it, by FetchContent and as a shared library, and runs it; installs both, and builds the project again
# with find_package and the program with pkg-config against that.
# cmake -DSOURCE=... -DCONSUMER=... -DCONSUMER_SOURCE=... -DGENERATOR=... -DCOMPILER=... -DPKG_CONFIG=... -DLIBDIR=... -DWORK=... -P source.cmake
include(${CMAKE_CURRENT_LIST_DIR}/command.cmake)

file(REMOVE_RECURSE ${WORK})
# Without optimisation: what is tested is how the parts fit.
set(_configure ${CMAKE_COMMAND} -S ${CONSUMER} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0
    -DCONSUMER_SOURCE=${CONSUMER_SOURCE})
run(${_configure} -B ${WORK}/build -DSPOOL_SOURCE=${SOURCE} -DBUILD_SHARED_LIBS=ON)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${CMAKE_COMMAND} -E chdir ${WORK} ${WORK}/build/consumer)
file(STRINGS ${WORK}/build/CPackConfig.cmake _package REGEX "CPACK_PACKAGE_NAME ")
if(NOT _package MATCHES "consumer")
  message(FATAL_ERROR "Spool has changed the package of the project that it is a part of: ${_package}")
endif()
run(${CMAKE_COMMAND} --install ${WORK}/build --prefix ${WORK}/prefix)
if(NOT IS_SYMLINK ${WORK}/prefix/${LIBDIR}/libspool.so)
  message(FATAL_ERROR "There is no ${LIBDIR}/libspool.so, a link to the library of this version")
endif()
run(${_configure} -B ${WORK}/again -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/again)
run(${CMAKE_COMMAND} -E chdir ${WORK} ${WORK}/again/consumer)
set(ENV{PKG_CONFIG_PATH} ${WORK}/prefix/${LIBDIR}/pkgconfig)
run(${PKG_CONFIG} --cflags --libs spool)
separate_arguments(_flags UNIX_COMMAND "${output}")
run(${COMPILER} -std=c++20 ${CONSUMER_SOURCE} ${_flags} -Wl,-rpath,${WORK}/prefix/${LIBDIR} -o ${WORK}/by_pkg_config)
run(${CMAKE_COMMAND} -E chdir ${WORK} ${WORK}/by_pkg_config)
