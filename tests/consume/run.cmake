# Installs Spool from BUILD into a fresh prefix, builds the consumer project with find_package, and runs it; a component that is not there is refused.
# cmake -DBUILD=... -DCONSUMER=... -DCONSUMER_SOURCE=... -DGENERATOR=... -DCOMPILER=... -DCUDA=... -DWORK=... -P run.cmake
include(${CMAKE_CURRENT_LIST_DIR}/command.cmake)

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
set(_configure ${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCONSUMER_SOURCE=${CONSUMER_SOURCE})
run(${_configure})
if(NOT output MATCHES "Spool [0-9.]+, CUDA: ${CUDA}\n")
  message(FATAL_ERROR "The package does not say that it was built with SPOOL_CUDA=${CUDA}:\n${output}")
endif()
foreach(_component opencl cuda)
  execute_process(COMMAND ${_configure} -DCOMPONENTS=${_component} RESULT_VARIABLE _status OUTPUT_QUIET ERROR_VARIABLE _error)
  string(REGEX REPLACE "[ \n]+" " " _text "${_error}")  # CMake breaks lines where the length of a path makes it
  if(_component STREQUAL "cuda" AND CUDA STREQUAL "ON")
    if(NOT _status EQUAL 0)
      message(FATAL_ERROR "The component cuda is not found:\n${_error}")
    endif()
  elseif(_status EQUAL 0 OR NOT _text MATCHES "has no component ${_component}")
    message(FATAL_ERROR "Asked for the component ${_component}, find_package says:\n${_error}")
  endif()
endforeach()
run(${_configure} -DCOMPONENTS=)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${CMAKE_COMMAND} -E chdir ${WORK} ${WORK}/build/consumer)
