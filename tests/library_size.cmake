# The library must stay small: cmake -DLIBRARY=... -DSTRIP=... -DWORK=... -DLIMIT_MB=... -P library_size.cmake
file(MAKE_DIRECTORY ${WORK})
execute_process(COMMAND ${STRIP} --strip-unneeded -o ${WORK}/stripped ${LIBRARY} COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${WORK}/stripped bytes)
math(EXPR limit "${LIMIT_MB} * 1024 * 1024")
message(STATUS "stripped: ${bytes} bytes")
if(bytes GREATER limit)
  message(FATAL_ERROR "the stripped library has ${bytes} bytes, more than ${LIMIT_MB} MB")
endif()
