//! The device for the harness: wgpu's backend without hardware, which keeps buffers in memory.

use bevy_platform::sync::Arc;
use bevy_render::{
    render_resource::{Buffer, BufferDescriptor, BufferUsages, CommandEncoderDescriptor},
    renderer::{RenderDevice, RenderQueue, WgpuWrapper},
};
use core::{future::Future, pin::pin, task};

/// Returns what a future has that waits for nothing.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut task::Context::from_waker(task::Waker::noop())) {
        task::Poll::Ready(output) => output,
        task::Poll::Pending => panic!("there is no hardware to wait for"),
    }
}

pub(super) fn open() -> (RenderDevice, RenderQueue) {
    let noop = wgpu::NoopBackendOptions { enable: true };
    let instance = wgpu::Instance::new(&wgpu::InstanceDescriptor {
        backends: wgpu::Backends::NOOP,
        backend_options: wgpu::BackendOptions { noop, ..Default::default() },
        ..Default::default()
    });
    let adapter = ready(instance.request_adapter(&Default::default())).unwrap();
    let (device, queue) = ready(adapter.request_device(&Default::default())).unwrap();
    (RenderDevice::from(device), RenderQueue(Arc::new(WgpuWrapper::new(queue))))
}

pub(super) fn read(buffer: &Buffer, device: &RenderDevice, queue: &RenderQueue) -> Vec<u8> {
    let copy = device.create_buffer(&BufferDescriptor {
        label: None,
        size: buffer.size(),
        usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let mut encoder = device.create_command_encoder(&CommandEncoderDescriptor { label: None });
    encoder.copy_buffer_to_buffer(buffer, 0, &copy, 0, buffer.size());
    queue.submit([encoder.finish()]);
    copy.slice(..).map_async(wgpu::MapMode::Read, Result::unwrap);
    device.wgpu_device().poll(wgpu::PollType::wait_indefinitely()).unwrap();
    copy.slice(..).get_mapped_range().to_vec()
}
