# run(command...): sets `output` to what it prints; a command that fails ends the script with that.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nexited with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()
