# Installs Spool from BUILD, moves the prefix, compiles the consumer's program by the flags that pkg-config gives, and runs it: without and with --static.
# cmake -DBUILD=... -DCONSUMER_SOURCE=... -DCOMPILER=... -DPKG_CONFIG=... -DLIBDIR=... -DWORK=... -P pkg_config.cmake
include(${CMAKE_CURRENT_LIST_DIR}/command.cmake)

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)
set(ENV{PKG_CONFIG_PATH} ${WORK}/moved/${LIBDIR}/pkgconfig)
foreach(_static "" "--static")
  run(${PKG_CONFIG} --cflags --libs ${_static} spool)
  string(FIND "${output}" "${WORK}/moved/" _at)
  if(_at EQUAL -1)
    message(FATAL_ERROR "pkg-config does not give the prefix that Spool was moved to, ${WORK}/moved:\n${output}")
  endif()
  separate_arguments(_flags UNIX_COMMAND "${output}")
  run(${COMPILER} -std=c++20 ${CONSUMER_SOURCE} ${_flags} -Wl,-rpath,${WORK}/moved/${LIBDIR} -o ${WORK}/consumer${_static})
  run(${CMAKE_COMMAND} -E chdir ${WORK} ${WORK}/consumer${_static})
endforeach()
